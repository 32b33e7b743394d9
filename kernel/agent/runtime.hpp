// A whole agent: one data loop with the links to its routers and the engine's connections, one control loop that watches
// engine and host. The two talk by posts; they share the slot count and nothing else.
#pragma once

#include <functional>
#include <memory>
#include <set>
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

class runtime final : private control_events {
 public:
  runtime(loop &data, loop &control_loop, const engine_codec &, http::origin engine, const agent_options &, link::identity);
  ~runtime();

  // Before start. The returned index names the router for request_pump.
  size_t add_router(router_target);
  void request_pump(size_t router);      // data loop
  void start();                          // any thread, once
  // Refuses new work, lets streams finish up to `limit_ns`, says goodbye, then calls `done` on the data loop. Any thread.
  void drain(uint64_t limit_ns, std::function<void()> done);

  uint32_t in_flight() const { return slots_.in_flight.load(std::memory_order_relaxed); }
  // The JSON of AUTH: what spec sheet 2.4 lists, and every model id.
  static std::string metadata_json(const agent_options &, const std::vector<std::string> &models);

 private:
  class connection;
  void on_engine(bool ready, const std::string &reason, const std::vector<std::string> &models) override;
  void on_signals(std::vector<sampled_signal>, std::string structured_json) override;
  void beat();
  void wait_for_streams();
  void say_goodbye();

  loop &data_;
  loop &control_loop_;
  const agent_options options_;
  const link::identity identity_;
  slot_count slots_;
  // data loop
  std::unique_ptr<proxy> proxy_;
  std::vector<std::unique_ptr<connection>> connections_;
  bool dialling_ = false;
  bool engine_ready_ = false;
  std::string engine_reason_;
  std::string metadata_;
  callback_timer heartbeat_timer_;
  callback_timer drain_timer_;
  uint64_t drain_deadline_ns_ = 0;
  std::function<void()> drained_;
  // control loop
  std::unique_ptr<control> control_;
};

}  // namespace hive::agent
