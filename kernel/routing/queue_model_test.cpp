// Random walks over the queue with a small fleet whose agents sit in several pools: the properties of docs/waiting.md,
// "What holds", are checked at every step or, where they speak of rest, whenever everything on its way has arrived.

#include <random>

#include "routing/queue_bed.hpp"

namespace hive::routing {
namespace {

using testing::bed;
using testing::request;
using state = request::state;

class walk {
 public:
  walk(uint32_t seed, bool fairness, bool gates)
      : random_(seed), gates_(gates), fifo_(!fairness), b_(line_limits{.depth = 12, .bytes = 1 << 20, .tenant_fairness = fairness}) {
    for (int i = 0; i < 4; ++i) register_agent(i);
  }
  ~walk() {
    for (auto &r : live_) r->held.reset();
  }

  void run(int steps) {
    for (step_ = 0; step_ < steps && !::testing::Test::HasFailure(); ++step_) {
      one();
      check_counts();
      if (below(40) == 0) check_rest();
    }
    check_rest();
  }
  uint64_t grants = 0, advanced = 0, lost = 0;

 private:
  uint32_t below(uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(random_); }
  std::string agent_name(uint32_t i) const { return "A" + std::to_string(i); }

  void register_agent(uint32_t i) {
    std::vector<std::string> models;
    for (const char *m : {"m", "n", "o"}) {
      if (below(2)) models.push_back(m);
    }
    if (models.empty()) models.push_back("m");
    left(agent_name(i));
    b_.add(agent_name(i), 1 + below(2), models);
    up_.insert(i);
  }

  void one() {
    const uint32_t dice = below(100);
    if (dice < 25 && live_.size() < 24) {
      enter_new();
    } else if (dice < 60) {
      if (!b_.wakes.empty()) b_.deliver(below(static_cast<uint32_t>(b_.wakes.size())));
    } else if (dice < 78) {
      if (request *r = pick(state::holding)) {
        new_event();
        r->finish();
      }
    } else if (dice < 84) {
      if (request *r = pick(state::holding)) {
        new_event();
        forget(*r);
        was_holding_.erase(r);
        r->retry();
      }
    } else if (dice < 89) {
      if (request *r = pick(state::waiting)) r->cancel();
    } else {
      fleet_event();
    }
    observe();
  }

  void enter_new() {
    static const char *models[] = {"m", "n", "o"};
    std::set<std::string> only;
    if (below(2)) {
      for (uint32_t i = 0; i < 4; ++i) {
        if (below(2)) only.insert(agent_name(i));
      }
    }
    std::string model = models[below(3)];
    if (b_.fleet.find_pool(model) == nullptr) return;
    ticket_class c;
    std::string tenant;
    if (!fifo_) {
      c.priority = static_cast<int32_t>(below(2));
      tenant = "t" + std::to_string(below(3));
      c.cost = 1 + below(5);
    }
    c.tenant = tenant;
    live_.push_back(std::make_unique<request>(b_, model, only, c));
    order_[live_.back().get()] = ++entered_;
    live_.back()->enter();
  }

  void fleet_event() {
    new_event();
    const uint32_t i = below(4);
    const std::string name = agent_name(i);
    if (up_.count(i) == 0) return register_agent(i);
    const auto [count, capacity] = b_.agent(name)->slots.load();
    (void)capacity;
    switch (below(9)) {
      case 0:
        left(name);
        b_.vanish(name);
        up_.erase(i);
        break;
      case 1: b_.fleet.draining(name, true); break;
      case 2: b_.fleet.draining(name, false); break;
      case 3: b_.fleet.refused_busy(name, {count, count, 2}); break;
      case 4: b_.fleet.pong(name, {count, count, 2}, b_.links[name]); break;
      case 5: register_agent(i); break;                                    // again: other models, other capacity
      case 6: b_.fleet.heartbeat(name, below(2) == 0, ""); break;
      case 7: b_.fleet.pong(name, {count + below(2), count, 2}, b_.links[name]); break;  // another router's work
      case 8:
        if (!gates_) break;
        if (!b_.gated.insert(name).second) b_.gated.erase(name);
        // The test's gates read no column; a change of standing twice over stands for the write that re-checks.
        b_.fleet.draining(name, true);
        b_.fleet.draining(name, false);
        break;
    }
  }

  // What happened since the last step, seen from outside.
  void observe() {
    std::vector<request *> granted;
    for (auto &r : live_) {
      if (r->now == state::holding && !was_holding_.count(r.get())) granted.push_back(r.get());
    }
    for (request *g : granted) {
      ++grants;
      const auto [count, capacity] = g->held.who()->slots.load();
      EXPECT_LE(count, capacity) << "step " << step_ << ": more slots given than there are";
      EXPECT_FALSE(b_.gated.count(g->agent())) << "step " << step_ << ": the gates keep that agent out";
      was_holding_.insert(g);
      for (auto &t : live_) {
        if (t->now != state::waiting || t->model_ != g->model_) continue;
        maybe_passed_.insert(t.get());
        if (order_[t.get()] > order_[g] || !t->suits(g->agent())) continue;
        if (lost_.count(t.get()) && !maybe_lost_.count(g)) {
          ADD_FAILURE() << "step " << step_ << ": a lost ticket was passed again";
        }
        // Whether one of another priority or tenant is later depends on what was granted since.
        if (t->cls.priority != g->cls.priority || t->tenant != g->tenant) continue;
        if (g->at_once) {
          ADD_FAILURE() << "step " << step_ << ": it came and went before one of its own priority and tenant that waited for that agent";
        }
        // A lost one goes first by right: it passes nobody.
        if (!maybe_lost_.count(g)) passed_[t.get()].insert(g->agent());
      }
    }
    for (auto &r : live_) {
      const bool ran = r->runs != std::exchange(runs_[r.get()], r->runs);
      if (ran && r->now == state::waiting && r->last.what == verdict::full) {
        for (const std::string &name : passed_[r.get()]) {
          if (fits_now(*r, name) && lost_.insert(r.get()).second) ++lost;
        }
        passed_.erase(r.get());
        if (maybe_passed_.erase(r.get()) != 0) maybe_lost_.insert(r.get());
      }
      if (r->now != state::holding) was_holding_.erase(r.get());
      if (r->now != state::waiting) forget(*r);
      EXPECT_LE(r->wakes, 3) << "step " << step_ << ": too many wakes between two changes";
      if (r->now == state::advanced) ++advanced;
    }
    std::erase_if(live_, [this](const auto &r) {
      const bool done = r->now == state::idle || r->now == state::advanced;
      if (done) order_.erase(r.get()), runs_.erase(r.get());
      return done;
    });
  }

  bool fits_now(request &r, const std::string &name) {
    const auto a = b_.agent(name);
    const auto p = b_.pool(r.model_);
    std::lock_guard lock(p->mutex());
    const auto index = a ? p->index_of(*a) : std::nullopt;
    return index && r.fits(*p, *index);
  }
  void forget(request &r) {
    passed_.erase(&r);
    lost_.erase(&r);
    maybe_passed_.erase(&r);
    maybe_lost_.erase(&r);
  }
  // An agent that comes again may get another place in its pools, where nobody knows that it had gone to others.
  void left(const std::string &agent) {
    for (auto &[r, names] : passed_) names.erase(agent);
  }
  void new_event() {
    for (auto &r : live_) r->wakes = 0;
  }
  request *pick(state s) {
    std::vector<request *> some;
    for (auto &r : live_) {
      if (r->now == s) some.push_back(r.get());
    }
    return some.empty() ? nullptr : some[below(static_cast<uint32_t>(some.size()))];
  }

  void check_counts() {
    std::map<const fleet::agent *, uint32_t> leases;
    for (auto &r : live_) {
      if (r->held) ++leases[r->held.who().get()];
    }
    for (uint32_t i : up_) {
      const auto a = b_.agent(agent_name(i));
      EXPECT_EQ(a->slots.load().first, leases[a.get()]) << "step " << step_;
    }
  }

  void check_rest() {
    for (int n = 0; !b_.wakes.empty(); ++n) {
      if (n > 500) {
        ADD_FAILURE() << "step " << step_ << ": it does not come to rest";
        return;
      }
      b_.deliver(below(static_cast<uint32_t>(b_.wakes.size())));
      observe();
    }
    b_.rows_match();
    std::map<std::string, uint64_t> waiting;
    for (auto &r : live_) {
      if (r->now != state::waiting) continue;
      ++waiting[r->model_];
      const auto p = b_.pool(r->model_);
      std::lock_guard lock(p->mutex());
      const funnel_result f = r->find(*p);
      EXPECT_NE(f.what, verdict::chosen) << "step " << step_ << ": it waits beside a free agent";
      EXPECT_NE(f.what, verdict::none) << "step " << step_ << ": it waits for nobody";
    }
    for (auto &[model, l] : b_.lines) EXPECT_EQ(l.line->stats().depth, waiting[model]) << model;
  }

  std::mt19937 random_;
  const bool gates_;
  const bool fifo_;
  bed b_;
  std::set<uint32_t> up_;
  std::vector<std::unique_ptr<request>> live_;
  std::map<const request *, uint64_t> order_;
  std::map<const request *, int> runs_;
  std::map<const request *, std::set<std::string>> passed_;  // agents that surely went to later ones since it last ran
  std::set<const request *> was_holding_, lost_;             // lost: surely
  std::set<const request *> maybe_passed_, maybe_lost_;      // by whatever the line counts as later
  uint64_t entered_ = 0;
  int step_ = 0;
};

// A million steps over all walks; where every step costs ten times as much, a fifth of it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int steps = 2'500;
#else
constexpr int steps = 12'500;
#endif

class queue_model : public ::testing::TestWithParam<std::tuple<int, bool, bool>> {};

INSTANTIATE_TEST_SUITE_P(walks, queue_model, ::testing::Combine(::testing::Range(0, 20), ::testing::Bool(), ::testing::Bool()));

TEST_P(queue_model, keeps_the_properties_of_waiting) {
  const auto [seed, fairness, gates] = GetParam();
  walk w(static_cast<uint32_t>(seed) * 977 + 13, fairness, gates);
  w.run(steps);
  EXPECT_GT(w.grants, 40u);
  EXPECT_GT(w.advanced, 10u);
}

}  // namespace
}  // namespace hive::routing
