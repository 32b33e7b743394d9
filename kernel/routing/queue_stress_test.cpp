// Several workers with a loop each, two pools that share agents, and a control thread that changes the fleet beside them.
// Meant for ThreadSanitizer; without it it still shows that nothing is lost, granted twice or stuck.

#include <condition_variable>
#include <random>
#include <thread>

#include "base/loop.hpp"
#include "routing/queue_bed.hpp"

namespace hive::routing {
namespace {

using testing::bed;

constexpr int workers = 3;
constexpr int requests_per_worker = 1500;
constexpr int alive_per_worker = 12;

class worker;

struct job final : candidate_finder {
  job(worker &w, waiting_line &l, std::shared_ptr<fleet::pool> p) : w_(w), line_(l), pool_(std::move(p)) {}
  void start();
  funnel_result find(fleet::pool &p) override {
    funnel_result r;
    for (uint32_t i = 0; i < p.count(); ++i) {
      const fleet::pool_row &row = p.row(i);
      if (!row.usable()) continue;
      if (!row.full()) return {verdict::chosen, i};
      r.what = verdict::full;
    }
    return r;
  }
  void on_taken(fleet::pool &p, uint32_t i) override {
    who_ = p.row(i).who;
    info_ = p.row(i).info;
  }
  void on_wake(uint64_t generation) override { settle_on(line_.run(t, generation)); }
  void settle_on(entered e);

  worker &w_;
  waiting_line &line_;
  std::shared_ptr<fleet::pool> pool_;
  std::shared_ptr<fleet::agent> who_;
  std::shared_ptr<const fleet::agent_info> info_;
  fleet::lease held;
  ticket t;
  bool over = false;
};

class worker {
 public:
  worker(bed &b, std::atomic<uint64_t> &over_granted, int seed) : b_(b), over_granted_(over_granted), random_(static_cast<uint32_t>(seed)) {}
  void run() {
    loop_.post([this] { refill(); });
    loop_.run();
  }
  void refill() {
    std::erase_if(live_, [](const auto &j) { return j->over; });
    while (started_ < requests_per_worker && live_.size() < alive_per_worker) {
      ++started_;
      const char *model = random_() % 2 ? "m" : "n";
      live_.push_back(std::make_unique<job>(*this, *b_.lines.at(model).line, b_.lines.at(model).pool));
      live_.back()->start();
    }
    if (live_.empty() && started_ == requests_per_worker) return loop_.stop();
    if (random_() % 16 == 0 && cancelled_ < started_ / 2) cancel_one();  // half at most: its slots may be with a thread that has no core
    loop_.post([this] { refill(); });
  }
  void cancel_one() {
    for (auto &j : live_) {
      if (j->over || !j->t.waiting()) continue;
      j->line_.cancel(j->t);
      j->over = true;
      ++cancelled_;
      return;
    }
  }
  void held(job &j) {
    const auto [count, capacity] = j.held.who()->slots.load();
    if (count > 8) over_granted_.fetch_add(1);
    (void)capacity;
    ++granted;
    loop_.post([&j] {
      j.held.reset();
      j.over = true;
    });
  }
  hive::loop &loop() { return loop_; }
  int granted = 0;

 private:
  bed &b_;
  std::atomic<uint64_t> &over_granted_;
  std::mt19937 random_;
  hive::loop loop_;
  std::vector<std::unique_ptr<job>> live_;
  int started_ = 0, cancelled_ = 0;
};

void job::start() {
  settle_on(line_.enter(t, *this, {}, 1, [&w = w_](std::function<void()> f) { w.loop().post(std::move(f)); }, true));
}

void job::settle_on(entered e) {
  if (e == entered::advance) over = true;
  if (e != entered::taken) return;
  held = fleet::lease(std::move(who_), std::move(info_), pool_);
  w_.held(*this);
}

TEST(queue_stress, workers_and_fleet_changes_lose_no_slot_and_no_request) {
  bed b(line_limits{.depth = 1000, .bytes = 1 << 20, .tenant_fairness = false});
  b.add("A0", 2, {"m", "n"});
  b.add("A1", 2, {"m", "n"});
  b.add("A2", 1, {"m"});
  std::atomic<uint64_t> over_granted{0};
  std::atomic<bool> stop{false};
  std::vector<std::unique_ptr<worker>> all;
  std::vector<std::thread> threads;
  for (int i = 0; i < workers; ++i) all.push_back(std::make_unique<worker>(b, over_granted, i + 1));
  std::thread control([&] {
    for (uint32_t n = 0; !stop; ++n) {
      b.fleet.models("A1", bed::metadata({"m", "n"}, 1 + n % 8));
      b.fleet.draining("A2", n % 2 == 0);
      b.fleet.signals("A0", {{"kv", static_cast<double>(n % 7), 0}}, "{}");
      if (n % 5 == 0) b.fleet.tick();
      std::this_thread::yield();
    }
  });
  for (auto &w : all) threads.emplace_back([&w] { w->run(); });
  for (std::thread &t : threads) t.join();
  stop = true;
  control.join();
  EXPECT_EQ(over_granted, 0u);
  int granted = 0;
  for (auto &w : all) granted += w->granted;
  EXPECT_GT(granted, workers * requests_per_worker / 4);
  for (const char *name : {"A0", "A1", "A2"}) EXPECT_EQ(b.agent(name)->slots.load().first, 0u) << name;
  b.rows_match();
  EXPECT_EQ(b.line("m").stats().depth + b.line("n").stats().depth, 0u);
}

}  // namespace
}  // namespace hive::routing
