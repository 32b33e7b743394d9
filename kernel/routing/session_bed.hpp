// What the tests of sessions share: a recorder, a request as the gateway would drive it, and a router over a made-up fleet.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "routing/fixture.hpp"
#include "routing/policy_text.hpp"
#include "routing/router.hpp"

namespace hive::routing::testing {

struct recorder final : outcome_recorder {
  struct seen {
    std::string agent;
    attempt_result what;
    standing_effect effect;
    double rtt_ms;
  };
  void on_sample(const latency_sample &s) override {
    sample_ms = s.rtt_ms;
    kinds.push_back(s.kind);
  }
  void on_attempt(const attempt_outcome &o) override {
    attempts.push_back({o.who->peer_id(), o.what, o.effect, sample_ms});
    sample_ms = 0;
  }
  double sample_ms = 0;
  std::vector<fleet::request_kind> kinds;   // of the samples
  void on_queue_wait(std::string_view, uint64_t) override { ++waits; }
  void on_served(std::string_view, bool fallback) override { served.push_back(fallback); }
  void on_exhausted(std::string_view, std::string_view, std::string_view code) override { codes.emplace_back(code); }
  void warn(const std::string &line) override { lines.push_back(line); }
  std::vector<seen> attempts;
  std::vector<bool> served;
  std::vector<std::string> codes, lines;
  int waits = 0;
};

// A request as the gateway would drive it.
struct client final : session_events {
  void on_lease(fleet::lease l, std::string_view step) override {
    slot = std::move(l);
    steps.emplace_back(step);
    agents.push_back(slot.who()->peer_id());
    if (leave_on_lease) flow.reset();
  }
  void on_exhausted(const exhaustion &e) override {
    end = e;
    if (leave_on_lease) flow.reset();
  }
  void on_parked() override { ++parked; }
  void report(attempt_result what, double rtt_ms = 5) {
    flow->sample(rtt_ms);
    flow->report({what, 0, 0, false});
    slot.reset();
  }
  fleet::lease slot;
  std::vector<std::string> steps, agents;
  std::optional<exhaustion> end;
  bool leave_on_lease = false;
  int parked = 0;
  std::unique_ptr<session> flow;
};

class sessions : public ::testing::Test {
 protected:
  test_source source_;
  test_fleet fleet_;
  manual_clock clock_;   // of the lines, where a test's options say so
  recorder recorder_;
  loop loop_;
  std::shared_ptr<fleet::pool> pool_ = fleet_.make_pool("qwen");
  std::optional<router> router_;

  void start(const std::string &policy, const router_options &options = {}) {
    router_.emplace(source_, fleet_.columns, recorder_, options);
    load(policy);
    const status s = router_->add_pool(pool_);
    ASSERT_TRUE(s.ok()) << s.text();
  }
  void load(const std::string &policy) {
    const auto d = parse_policy(policy, source_);
    ASSERT_TRUE(d) << d.why().text();
    const status s = router_->set_policies(d->document);
    ASSERT_TRUE(s.ok()) << s.text();
  }
  void open(client &c, const request_facts &facts) { c.flow = router_->open(loop_, facts, c); }
  static request_facts facts() {
    request_facts f;
    f.request_id = "r1";
    f.model = "qwen";
    f.capability = "llm";
    f.tenant = "acme";
    return f;
  }
  // Asks for the next agent and lets the loop run until everything ready has run.
  void next(client &c) {
    c.flow->next();
    run();
  }
  void ask(client &c) {
    open(c, facts());
    next(c);
  }
  void run() {
    loop_.io().restart();
    while (loop_.io().poll() > 0) {
    }
  }
  // Runs the loop until `done`, for ten seconds at most.
  template <class F>
  bool run_until(F done) {
    const uint64_t limit = now_ns() + 10 * ns_per_s;
    while (!done() && now_ns() < limit) loop_.io().run_one_for(std::chrono::milliseconds(5));
    return done();
  }
  uint64_t depth() { return router_->lines().at(0).stats.depth; }
};

inline constexpr const char *plain = "routing_policy: {strategy: least-loaded, max_tries: 2}";

}  // namespace hive::routing::testing
