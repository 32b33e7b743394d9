// The session over a compiled route (docs/life-of-a-request.md). Private to the room: others see session.hpp.
//
// Everything runs on the session's loop; find, on_taken, on_full, fits and the two reads with the pool's lock held, fits on any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "routing/funnel.hpp"
#include "routing/queue.hpp"
#include "routing/router.hpp"
#include "routing/session.hpp"
#include "routing/snapshot.hpp"

namespace hive::routing {

class session_impl final : public session, public candidate_finder {
 public:
  // `found` null: no pool of that model.
  session_impl(loop &, const request_facts &, session_events &, outcome_recorder &, const router_options &,
               std::shared_ptr<const route> found, std::shared_ptr<const policy_document>);
  ~session_impl() override;

  void next() override;
  void sample(double rtt_ms) override;
  void first_content() override;
  void report(const attempt_report &) override;
  uint32_t attempts() const override { return forwards_; }
  uint64_t queue_ns() const override { return queue_ns_; }
  std::string_view step() const override;

  funnel_result find(fleet::pool &) override;
  void on_taken(fleet::pool &, uint32_t index) override;
  void on_full(fleet::pool &) override;
  void on_wake(uint64_t generation) override;
  bool fits(fleet::pool &, uint32_t index) override;
  bool reads(hive_column) const override;
  bool reads_rise(hive_column) const override;
  std::span<const aged_column> ages() const override;

 private:
  struct turn final : turn_task {
    explicit turn(session_impl &s) : owner(s) {}
    void on_turn_end() override { owner.begin(); }
    session_impl &owner;
  };
  struct alarm final : loop_timer {
    explicit alarm(session_impl &s) : owner(s) {}
    void on_timer() override { owner.on_alarm(); }
    session_impl &owner;
  };
  // What was done to one agent in this request.
  struct history {
    std::shared_ptr<fleet::agent> who;
    bool redialled = false;    // its free redial is used up
    uint32_t refusals = 0;
  };

  void begin();                // the pause before a retry, if there is to be one, then the walk
  void walk();
  bool nobody_is_left() const;
  bool settle(entered);        // false: the step came back empty
  void deliver();
  void leave_step(std::string reason);
  void stop_waiting(bool with_slot);
  void start_waiting();
  void on_alarm();
  void on_deadline();
  void finish_exhausted();
  void finish(exhaustion);
  bool past_deadline(uint64_t now) const { return facts_.deadline_ns != 0 && now >= facts_.deadline_ns; }
  history &history_of(const std::shared_ptr<fleet::agent> &);
  void fail_here(const std::shared_ptr<fleet::agent> &);
  void charge_retry();         // the next agent waits for a pause, and is asked only within the model's budget
  void tell_end(hive_status, const attempt_report &);
  std::string chain() const;

  loop &loop_;
  const request_facts facts_;
  session_events &events_;
  outcome_recorder &recorder_;
  const router_options &options_;
  const std::shared_ptr<const route> route_;
  const std::shared_ptr<const policy_document> document_;
  turn turn_{*this};
  alarm alarm_{*this};

  std::optional<ticket> ticket_;          // of the present step
  ticket_class class_;
  selection selection_;
  size_t at_ = 0;                         // step
  uint32_t tries_ = 0;                    // charged in it
  std::vector<history> agents_;           // keeps those in selection_'s lists alive
  std::vector<std::string> reasons_;
  bool saw_full_ = false;
  uint64_t retry_after_ns_ = 0;           // of the steps that were full, the soonest; 0 = not known
  bool only_unregistered_ = true;
  bool out_of_retries_ = false;
  bool holds_retry_ = false;
  uint32_t charged_ = 0;                  // retries in this request
  uint64_t pause_ns_ = 0;                 // to be kept before the next agent is asked
  bool pausing_ = false;                  // the alarm is for that
  bool finished_ = false;
  verdict last_ = verdict::none;
  std::string why_none_;                  // of the last verdict `none`

  std::shared_ptr<fleet::agent> taken_;   // set by on_taken; the attempt's agent until its report
  std::shared_ptr<const fleet::agent_info> taken_info_;
  uint64_t taken_generation_ = 0;
  uint64_t taken_ns_ = 0;
  bool told_first_ = false;
  uint32_t forwards_ = 0;
  bool waiting_ = false;
  uint64_t wait_start_ns_ = 0;
  uint64_t queue_ns_ = 0;
};

}  // namespace hive::routing
