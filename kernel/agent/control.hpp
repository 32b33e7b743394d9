// The agent's control half: watches the engine (readiness, models, metrics and load pages) and the host, and says what it
// found. Lives on the control loop; everything here belongs to that thread.
//
// An engine is ready while its health page says so and its models are known. It is down after failure_threshold bad probes
// in a row, and at once when it says that it is loading. A probe that is left unanswered while requests run is no bad one
// as long as the engine was heard of within busy_limit: a full engine starves its own health page.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/engine.hpp"
#include "agent/hardware.hpp"
#include "agent/options.hpp"
#include "agent/page_fetch.hpp"
#include "agent/proxy.hpp"
#include "agent/signals.hpp"
#include "base/loop.hpp"

namespace hive::agent {

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
  using on_page = void (control::*)(const page_answer &);

  void probe();
  void on_probe(const page_answer &);
  void on_health_url(const page_answer &);
  void judge_health(const page_answer &, int32_t state, std::string reason);
  void on_well();
  void discover();
  void on_models(const page_answer &);
  void take_models(std::vector<std::string>);
  void engine_failed(const page_answer &, std::string reason);
  void poll_metrics();
  void on_metrics(const page_answer &);
  void poll_load();
  void on_load(const page_answer &);
  void sample_hardware();
  void publish();
  void set_engine(bool ready, std::string reason);
  bool busy() const;
  uint64_t period_of(int page, uint64_t own_ns) const;
  void get(http::client &, const hive_page &, std::unique_ptr<page_fetch> &slot, on_page);
  http::client_options client_options() const;

  loop &loop_;
  const engine_codec &codec_;
  const agent_options &options_;
  const slot_count &slots_;
  control_events &events_;
  http::client client_;
  std::unique_ptr<http::client> health_client_;  // only with a health URL of the operator's
  std::string health_path_;
  hardware_sampler hardware_;

  callback_timer probe_timer_, models_timer_, metrics_timer_, load_timer_, hardware_timer_, publish_timer_;
  std::unique_ptr<page_fetch> probe_fetch_, models_fetch_, metrics_fetch_, load_fetch_;

  bool known_ = false;                      // the models have been read once
  bool ready_ = false;
  bool well_ = false;                       // what the health page said last
  bool models_decide_ = false;              // there is no health page: the list of models is it
  std::string reason_ = "waiting for the engine";
  uint32_t failures_ = 0;
  uint64_t last_well_ns_ = 0;
  bool metrics_broken_ = false;
  std::vector<std::string> models_;
  signal_board signals_;
  boost::json::object hardware_json_;
};

}  // namespace hive::agent
