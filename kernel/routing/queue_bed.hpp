// What the queue's tests share: a small fleet behind a real registry, requests with simple funnels, and wakes that wait in
// a list until the test delivers them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fleet/lease.hpp"
#include "fleet/registry.hpp"
#include "routing/queue.hpp"

namespace hive::routing::testing {

struct silent_control final : fleet::link_control {
  void probe(uint32_t, std::string, std::function<void(bool)> reply) override { reply(false); }
  void kick_link(link::link_id, std::string, std::string, uint64_t, bool) override {}
};

struct request;

struct bed {
  explicit bed(const line_limits &l = {}) : limits(l), fleet({}, clock, control, nullptr, nullptr, nullptr) {}

  static std::string metadata(const std::vector<std::string> &models, uint32_t capacity) {
    std::string list;
    for (const std::string &m : models) list += (list.empty() ? "\"" : ",\"") + m + "\"";
    return "{\"models\":[" + list + "],\"capacity\":" + std::to_string(capacity) +
           ",\"version\":\"1\",\"engine\":\"vllm\",\"region\":\"eu\",\"organization\":\"org\"}";
  }
  void add(const std::string &name, uint32_t capacity, const std::vector<std::string> &models = {"m"}) {
    link::auth_request r;
    r.peer_id = name;
    r.boot_id = 1;
    r.link = {0, ++peers};
    r.metadata = metadata(models, capacity);
    bool welcomed = false;
    fleet.authenticate(std::move(r), [&](link::auth_decision d) { welcomed = d.what == link::auth_decision::kind::welcome; });
    ASSERT_TRUE(welcomed) << name;
    links[name] = {0, peers};
    for (const std::string &m : models) line(m);
  }
  void vanish(const std::string &name) { fleet.goodbye(name); }
  waiting_line &line(const std::string &model) {
    auto &l = lines[model];
    if (!l.line) {
      l.pool = fleet.find_pool(model);
      l.line = std::make_unique<waiting_line>(*l.pool, limits);
    }
    return *l.line;
  }
  std::shared_ptr<fleet::pool> pool(const std::string &model = "m") {
    line(model);
    return lines[model].pool;
  }
  std::shared_ptr<fleet::agent> agent(const std::string &name) { return fleet.find(name); }

  bool deliver(size_t i) {
    if (i >= wakes.size()) return false;
    auto f = std::move(wakes[i]);
    wakes.erase(wakes.begin() + static_cast<ptrdiff_t>(i));
    f();
    return true;
  }
  // Until nothing is on its way; `newest_first` turns the order of arrival round.
  void deliver_all(bool newest_first = false) {
    for (int n = 0; !wakes.empty(); ++n) {
      ASSERT_LT(n, 10000) << "wakes without end";
      deliver(newest_first ? wakes.size() - 1 : 0);
    }
  }
  void rows_match() {
    for (auto &[model, l] : lines) {
      std::lock_guard lock(l.pool->mutex());
      for (uint32_t i = 0; i < l.pool->count(); ++i) {
        const fleet::pool_row &row = l.pool->row(i);
        EXPECT_EQ(l.pool->slot_states()[i], !row.usable() ? fleet::slot_unusable : row.full() ? fleet::slot_full : fleet::slot_free);
        if (!row.who) continue;
        const auto [count, capacity] = row.who->slots.load();
        EXPECT_EQ(row.active, count) << model << " " << row.who->peer_id();
        EXPECT_EQ(row.capacity, capacity) << model << " " << row.who->peer_id();
        EXPECT_EQ(row.standing, row.who->standing());
        EXPECT_EQ(l.pool->value(fleet.kernel().active_requests, i), count + row.who->foreign.load());
      }
    }
  }

  struct held_line {
    std::shared_ptr<fleet::pool> pool;
    std::unique_ptr<waiting_line> line;
  };
  line_limits limits;
  manual_clock clock;
  silent_control control;
  fleet::registry fleet;
  std::map<std::string, held_line> lines;
  std::map<std::string, link::link_id> links;
  std::deque<std::function<void()>> wakes;
  uint64_t peers = 0;
  std::set<std::string> gated;                         // agents that every request's gates keep out
};

struct request final : candidate_finder {
  enum class state { idle, waiting, holding, advanced };

  request(bed &b, std::string model = "m", std::set<std::string> only = {}, ticket_class c = {})
      : b_(b), model_(std::move(model)), only_(std::move(only)), tenant(c.tenant), cls(c) {
    cls.tenant = tenant;
  }

  bool suits(const std::string &name) const {
    return (only_.empty() || only_.count(name) != 0) && failed.count(name) == 0;
  }
  funnel_result find(fleet::pool &p) override {
    funnel_result r;
    for (uint32_t i = 0; i < p.count(); ++i) {
      if (!fits(p, i)) continue;
      if (!p.row(i).full()) return last = {verdict::chosen, i};
      r.what = verdict::full;
    }
    return last = r;
  }
  bool fits(fleet::pool &p, uint32_t i) override {
    const fleet::pool_row &row = p.row(i);
    return row.usable() && suits(row.who->peer_id()) && b_.gated.count(row.who->peer_id()) == 0;
  }
  void on_taken(fleet::pool &p, uint32_t i) override {
    who_ = p.row(i).who;
    info_ = p.row(i).info;
  }
  void on_wake(uint64_t generation) override {
    ++wakes;
    settle_on(b_.line(model_).run(t, generation), false);
  }
  request &enter(bool may_wait = true) {
    settle_on(b_.line(model_).enter(t, *this, cls, bytes, [&b = b_](std::function<void()> f) { b.wakes.push_back(std::move(f)); },
                                    may_wait), true);
    return *this;
  }
  void settle_on(entered e, bool entering) {
    if (!entering) ++runs;
    if (e == entered::taken) {
      held = fleet::lease(who_, info_, b_.pool(model_));
      now = state::holding;
      at_once = entering;
    } else {
      now = e == entered::waiting ? state::waiting : state::advanced;
    }
  }
  void finish() {
    held.reset();
    now = state::idle;
  }
  // The attempt failed on its agent: try another one.
  void retry() {
    failed.insert(held.who()->peer_id());
    finish();
    enter();
  }
  void cancel() {
    b_.line(model_).cancel(t);
    now = state::idle;
  }
  std::string agent() const { return held ? held.who()->peer_id() : std::string(); }

  bed &b_;
  std::string model_;
  std::set<std::string> only_;
  std::set<std::string> failed;
  const std::string tenant;
  ticket_class cls;
  size_t bytes = 100;
  ticket t;
  fleet::lease held;
  state now = state::idle;
  int wakes = 0;
  int runs = 0;
  bool at_once = false;   // it got its slot when it entered
  funnel_result last;

 private:
  std::shared_ptr<fleet::agent> who_;
  std::shared_ptr<const fleet::agent_info> info_;
};

}  // namespace hive::routing::testing
