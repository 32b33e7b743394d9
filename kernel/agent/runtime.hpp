// A whole agent: a data half in each of its loops, and one control half that watches engine and host. A process of its own
// has one loop with the links to all its routers; an agent inside a router has a half in every worker's loop, each linked to
// that worker. The halves talk by posts; they share the slot count and nothing else.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/control.hpp"
#include "agent/data_half.hpp"
#include "agent/options.hpp"
#include "base/loop.hpp"

namespace hive::agent {

class runtime final : private control_events, private half_events {
 public:
  runtime(std::vector<loop *> data, loop &control_loop, const engine_codec &, http::origin engine, const agent_options &, link::identity);
  // Once none of its loops runs any more.
  ~runtime();

  data_half &half(size_t i) { return *halves_[i]; }
  void start();                          // any thread, once
  void stop_control();                   // control loop: no probe, no sample any more
  // Refuses new work, lets streams finish up to `limit_ns`, says goodbye, then calls `done` on the first half's loop. Any
  // thread; for an agent with one half.
  void drain(uint64_t limit_ns, std::function<void()> done);

  uint32_t in_flight() const { return slots_.in_flight.load(std::memory_order_relaxed); }

 private:
  void on_engine(bool ready, const std::string &reason, const std::vector<std::string> &models) override;
  void on_signals(std::vector<sampled_signal>, std::string structured_json) override;
  void on_registered(size_t router) override;
  void on_drain_asked(size_t router, uint64_t deadline_ms) override;
  void wait_for_streams();

  loop &control_loop_;
  const agent_options options_;
  const link::identity identity_;
  slot_count slots_;
  std::vector<std::unique_ptr<data_half>> halves_;
  // first half's loop
  callback_timer drain_timer_;
  uint64_t drain_deadline_ns_ = 0;
  std::function<void()> drained_;
  // control loop
  std::unique_ptr<control> control_;
};

}  // namespace hive::agent
