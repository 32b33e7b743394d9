// The data half of an agent in one loop: the links to its routers there, and the engine's connections behind them. Belongs
// to that loop; only construction and destruction may happen elsewhere, while nothing of it runs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/control.hpp"
#include "agent/options.hpp"
#include "agent/proxy.hpp"
#include "base/loop.hpp"
#include "link/agent_link.hpp"

namespace hive::agent {

// One router to dial, with the transport instance for it.
struct router_target {
  link::agent_link_options options;
  link::transport_ref transport;
};

// What the half tells the agent it belongs to; called on the half's loop.
class half_events {
 public:
  virtual void on_registered(size_t router) = 0;             // all links of this half to it are welcomed
  virtual void on_drain_asked(size_t router, uint64_t deadline_ms) = 0;

 protected:
  ~half_events() = default;
};

class data_half {
 public:
  data_half(loop &, const engine_codec &, const http::origin &engine, const agent_options &, const link::identity &, slot_count &,
            half_events &);
  ~data_half();
  loop &home() { return loop_; }

  size_t add_router(router_target);       // before dial; the index names the router in the calls below
  void request_pump(size_t router);
  void set_secrets(const std::vector<std::string> &);        // of the links to all routers, newest first
  void dial();                            // once; later calls do nothing
  // The next AUTH, MODELS and HEARTBEAT say this; an edge is told at once.
  void set_engine(bool ready, const std::string &reason, const std::vector<std::string> &models);
  void send_signals(const std::vector<sampled_signal> &, std::string_view structured_json);
  void drain_for(size_t router, uint64_t deadline_ms);       // its new requests are refused, others go on
  void drain(uint64_t deadline_ms);                          // nothing new from anybody
  void goodbye(std::function<void()> done);                  // last records; `done` when every router has let go

 private:
  class connection;
  void beat();
  uint64_t period_ns() const;
  void keep_pace();
  void slot_freed();

  loop &loop_;
  const agent_options &options_;
  const link::identity &identity_;
  slot_count &slots_;
  half_events &events_;
  proxy proxy_;
  std::vector<std::unique_ptr<connection>> connections_;
  bool dialled_ = false;
  uint64_t drain_deadline_ns_ = 0;         // 0 = not draining
  bool engine_ready_ = false;
  std::string engine_reason_;
  std::string metadata_;
  callback_timer heartbeat_timer_;
};

// The JSON of AUTH, as fleet/metadata.hpp reads it: what the settings say of the agent, and every model id.
std::string metadata_json(const agent_options &, const std::vector<std::string> &models);

}  // namespace hive::agent
