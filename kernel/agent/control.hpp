// The agent's control half: watches the engine (readiness, models, metrics page) and the host, and says what it found.
// Lives on the control loop; everything here belongs to that thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/engine.hpp"
#include "agent/hardware.hpp"
#include "agent/options.hpp"
#include "agent/proxy.hpp"
#include "base/loop.hpp"

namespace hive::agent {

// A signal as it goes to the router: sampled at a monotonic time, so that its age can be told.
struct sampled_signal {
  std::string name;
  double value;
  uint64_t sampled_ns;
};

// What the control half reports; called on the control loop.
class control_events {
 public:
  // First after the engine was ready and its models known, then at every change of either.
  virtual void on_engine(bool ready, const std::string &reason, const std::vector<std::string> &models) = 0;
  virtual void on_signals(std::vector<sampled_signal>, std::string structured_json) = 0;

 protected:
  ~control_events() = default;
};

class control {
 public:
  control(loop &, const engine_codec &, http::origin, const agent_options &, const slot_count &, control_events &);
  ~control();
  void start();
  void stop();

 private:
  class fetch;
  void probe();
  void on_probe(bool answered, uint32_t status, const std::string &body, const std::string &trouble);
  void discover();
  void on_models(bool answered, uint32_t status, const std::string &body, const std::string &trouble);
  void poll_metrics();
  void on_metrics(bool answered, uint32_t status, const std::string &body, const std::string &trouble);
  void sample_hardware();
  void publish();
  void set_engine(bool ready, std::string reason);
  void get(int page, std::unique_ptr<fetch> &slot, void (control::*done)(bool, uint32_t, const std::string &, const std::string &));

  loop &loop_;
  const engine_codec &codec_;
  const agent_options &options_;
  const slot_count &slots_;
  control_events &events_;
  http::client client_;
  hardware_sampler hardware_;

  callback_timer probe_timer_, models_timer_, metrics_timer_, hardware_timer_, publish_timer_;
  std::unique_ptr<fetch> probe_fetch_, models_fetch_, metrics_fetch_;

  bool known_ = false;                      // the models have been read once
  bool ready_ = false;
  bool well_ = false;                       // what the health page said last
  std::string reason_ = "waiting for the engine";
  uint32_t failures_ = 0;
  bool metrics_broken_ = false;
  std::vector<std::string> models_;

  std::map<std::string, sampled_signal> signals_;
  std::map<std::string, histogram_window> windows_;
  std::map<std::string, rate_meter> rates_;
  std::map<std::string, std::map<std::string, double>> labelled_;
  std::map<std::string, double> counters_;
  std::string hardware_json_;
};

}  // namespace hive::agent
