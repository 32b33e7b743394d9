// Two router workers and an agent, each a loop on a thread of its own, as the programs run them. The test's thread looks
// at what belongs to a loop only through on(), which waits for that loop.
#pragma once

#include <atomic>
#include <future>
#include <thread>

#include "base/test_wait.hpp"
#include "link/link_bench_test.hpp"

namespace hive::link::testing {

class loop_thread {
 public:
  loop_thread() : thread_([this] { l.run([](const char *what) { ADD_FAILURE() << what; }); }) {}
  ~loop_thread() {
    l.stop();
    thread_.join();
  }
  template <class F>
  auto on(F f) {
    std::packaged_task<decltype(f())()> task(std::move(f));
    auto answer = task.get_future();
    l.post([task = std::move(task)]() mutable { task(); });  // it ends after get() may have returned
    return answer.get();
  }
  loop l;

 private:
  std::thread thread_;
};

// Everybody who has the secret is welcome.
class open_directory final : public directory {
 public:
  void authenticate(auth_request, std::function<void(auth_decision)> reply) override {
    auth_decision d;
    d.what = auth_decision::kind::welcome;
    reply(std::move(d));
  }
  void link_lost(link_id, std::string_view) override { ++lost; }
  void heartbeat(std::string_view, bool, std::string_view) override {}
  void signals(std::string_view, const std::vector<signal_value> &, std::string_view) override {}
  void models(std::string_view, std::string_view) override {}
  void pong(std::string_view, const pong_info &, link_id) override { ++pongs; }
  void refused_busy(std::string_view, const pong_info &) override {}
  void draining(std::string_view, bool) override {}
  void expired(std::string_view, bool) override {}
  void goodbye(std::string_view) override {}
  std::atomic<int> lost{0}, pongs{0};
};

class threaded_bench {
 public:
  static constexpr uint32_t workers = 2;
  struct worker {
    std::unique_ptr<hub_side> side;
    std::vector<std::unique_ptr<client>> clients;
    int slots = 0;
    loop_thread thread;
  };
  struct account {
    std::set<uint64_t> streams;
    uint64_t sendable = 0, owed = 0, size = 0;
  };

  explicit threaded_bench(transport_factory &f) : factory(f) {}
  ~threaded_bench() {
    stop_agent();
    for (auto &w : at)
      w.thread.on([&w] {
        w.clients.clear();
        w.side.reset();
      });
  }

  void start() {
    hub_options o;
    o.secrets = {secret_a};
    o.router_boot_id = 77;
    o.workers = workers;
    o.stream_window = 64 * 1024;
    // A sanitizer on a busy machine answers late; the limits have tests of their own.
    o.open_limit_ns = 60 * ns_per_s;
    o.ping_ns = 60 * ns_per_s;
    std::vector<std::string> all;
    for (uint32_t w = 0; w < workers; ++w) {
      o.worker = w;
      auto end = factory.make();
      all.push_back(at[w].thread.on([&] {
        at[w].side = std::make_unique<hub_side>(at[w].thread.l, std::move(end), dir, o);
        EXPECT_TRUE(at[w].side->hub->start().ok());
        auto bound = at[w].side->hub->pump.listen("127.0.0.1:0");
        EXPECT_TRUE(bound.ok()) << bound.why().text();
        return bound.ok() ? *bound : std::string();
      }));
    }
    for (auto &w : at) w.thread.on([&] { w.side->hub->endpoints = all; });
    address = all[0];
  }
  void start_agent(size_t chunk = 0) {
    agent_link_options o;
    o.secrets = {secret_a};
    o.router = address;
    o.reconnect_min_ns = 5 * ns_per_ms;
    o.reconnect_max_ns = 20 * ns_per_ms;
    auto end = factory.make();
    agent_thread.on([&] {
      agent = std::make_unique<agent_side>(agent_thread.l, std::move(end), 1, o);
      agent->behind.chunk = chunk;
      agent->link->start();
    });
    ASSERT_TRUE(until([&] { return agent_thread.on([&] { return agent->up(); }); })) << "the agent was not welcomed";
    peer_id = agent_thread.on([&] { return agent->id.peer_id; });
  }
  void stop_agent() {
    agent_thread.on([&] { agent.reset(); });
  }
  // On the worker's thread.
  client &open(worker &w, std::string_view target, std::string body = {}) {
    auto &c = *w.clients.emplace_back(std::make_unique<client>());
    open_request r;
    r.target = target;
    r.request_id = "r";
    r.body = std::make_shared<const std::string>(std::move(body));
    c.stream = w.side->hub->open(peer_id, r, c, std::make_unique<slot_token>(w.slots, nullptr), c.failure);
    EXPECT_TRUE(c.stream) << c.failure.message;
    return c;
  }
  bool on_every(const std::function<bool(worker &)> &holds) {
    for (auto &w : at)
      if (!w.thread.on([&] { return holds(w); })) return false;
    return true;
  }
  static bool every(const worker &w, bool (*holds)(const client &)) {
    return std::all_of(w.clients.begin(), w.clients.end(), [holds](const auto &c) { return holds(*c); });
  }
  static bool until(const std::function<bool()> &done, uint64_t ms = 20'000) {
    return within_limit(done, ms);
  }
  // Both ends of every link hold the same streams (none), no slot is taken, and all credit is home.
  void expect_at_rest() {
    for (uint32_t w = 0; w < workers; ++w) {
      account r, a;
      EXPECT_TRUE(until([&] {
        r = at[w].thread.on([&] {
          for (auto &[p, l] : at[w].side->hub->links())
            if (l->at == hub_link::phase::welcomed) return read(*l);
          return account{};
        });
        a = agent_thread.on([&] { return read(*agent->link->slots[w]->link); });
        return r.size != 0 && r.streams.empty() && a.streams.empty() && r.sendable + a.owed == a.size && a.sendable + r.owed == r.size;
      })) << "worker " << w << ": router " << r.streams.size() << " streams, " << r.sendable << '+' << a.owed << " of " << a.size
          << "; agent " << a.streams.size() << " streams, " << a.sendable << '+' << r.owed << " of " << r.size;
      EXPECT_EQ(at[w].thread.on([&] { return at[w].slots; }), 0);
    }
  }

  // What every client has got so far and where the credit of its link is.
  std::string text() {
    std::string out;
    for (uint32_t w = 0; w < workers; ++w) {
      account r, a;
      out += "worker " + std::to_string(w) + ": got";
      at[w].thread.on([&] {
        for (const auto &c : at[w].clients) out += ' ' + std::to_string(c->got) + (c->over() ? " (" + std::string(to_string(c->failed)) + ")" : "");
        for (auto &[p, l] : at[w].side->hub->links()) r = read(*l);
      });
      a = agent_thread.on([&] { return read(*agent->link->slots[w]->link); });
      out += "; router may send " + std::to_string(r.sendable) + " and owes " + std::to_string(r.owed) + ", agent may send " +
             std::to_string(static_cast<int64_t>(a.sendable)) + " and owes " + std::to_string(a.owed) + "; " + std::to_string(r.streams.size()) + '/' +
             std::to_string(a.streams.size()) + " streams\n";
    }
    return out;
  }

  transport_factory &factory;
  open_directory dir;
  std::string address, peer_id;
  std::unique_ptr<agent_side> agent;
  worker at[workers];
  loop_thread agent_thread;

 private:
  template <class Link>
  static account read(Link &l) {
    account out;
    for (auto &[id, s] : l.streams) out.streams.insert(id);
    out.sendable = static_cast<uint64_t>(l.send_credit().available());
    out.owed = l.receive_credit().owed();
    out.size = l.receive_credit().size();
    return out;
  }
};

}  // namespace hive::link::testing
