// Loads that show what each strategy is for; the tests judge them and the pictures of docs/strategies are drawn from them. The
// same numbers on every run.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "fleet_model.hpp"
#include "rules.hpp"

namespace hive::simulation {

class chance {
 public:
  explicit chance(uint64_t seed) : state_(seed) {}
  double unit() {                                    // in [0, 1)
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
  }
  double between(double a, double b) { return a + (b - a) * unit(); }
  double gap(double rate) { return -std::log(1 - unit()) / rate; }   // between arrivals at random

 private:
  uint64_t state_;
};

struct scenario {
  std::vector<arrival> requests;
  std::vector<engine_kind> fleet;
};

// Eight engines; one of them takes five times as long for everything from second 100 to 200 of 300.
inline scenario one_goes_bad() {
  scenario s;
  s.fleet.assign(8, {});
  s.fleet[3].slow_from_s = 100;
  s.fleet[3].slow_until_s = 200;
  s.fleet[3].slow_factor = 5;
  chance c(1);
  for (double t = 0; t < 300; t += c.gap(30)) {
    arrival a;
    a.at_s = t;
    a.prompt = static_cast<uint32_t>(c.between(200, 1800));
    a.output = 10;
    s.requests.push_back(a);
  }
  return s;
}

// Nine requests of ten are small talk, the tenth is a document of 8,000 to 32,000 tokens.
inline scenario mixed_lengths() {
  scenario s;
  s.fleet.assign(8, {});
  chance c(2);
  for (double t = 0; t < 600; t += c.gap(18)) {
    arrival a;
    a.at_s = t;
    const bool document = c.unit() < 0.1;
    a.prompt = static_cast<uint32_t>(document ? c.between(8000, 32000) : c.between(100, 500));
    a.output = static_cast<uint32_t>(c.between(50, 250));
    s.requests.push_back(a);
  }
  return s;
}

// 400 chats, a few of them busy (the n-th asks 1/n as often as the first); each question repeats all that was said before.
inline scenario long_chats() {
  scenario s;
  engine_kind k;
  k.cache_blocks = 600;
  s.fleet.assign(8, k);
  constexpr size_t chats = 400;
  std::vector<double> until;
  double sum = 0;
  for (size_t i = 0; i < chats; ++i) until.push_back(sum += 1 / static_cast<double>(i + 8));
  std::vector<size_t> blocks(chats, 0);
  chance c(3);
  for (double t = 0; t < 600; t += c.gap(14)) {
    const double x = c.unit() * sum;
    size_t i = 0;
    while (until[i] < x) ++i;
    blocks[i] = blocks[i] >= 24 ? 2 : blocks[i] + 2;   // a new chat of the same person after a dozen questions
    arrival a;
    a.at_s = t;
    a.session = "chat-" + std::to_string(i);
    a.prompt = static_cast<uint32_t>(static_cast<double>(blocks[i]) * tokens_a_block);
    a.output = static_cast<uint32_t>(c.between(50, 250));
    for (size_t b = 0; b < blocks[i]; ++b) a.blocks.push_back(i * 1000 + b);
    s.requests.push_back(std::move(a));
  }
  return s;
}

inline arrival plain_request(double at_s, chance &c) {
  arrival a;
  a.at_s = at_s;
  a.prompt = static_cast<uint32_t>(c.between(200, 1800));
  a.output = static_cast<uint32_t>(c.between(5, 50));
  return a;
}

// Sixteen engines, half of them half as fast and with half the slots.
inline scenario unequal_engines() {
  scenario s;
  engine_kind k;
  s.fleet.assign(8, k);
  k.prefill_tokens_s /= 2;
  k.token_s *= 2;
  k.capacity /= 2;
  s.fleet.insert(s.fleet.end(), 8, k);
  chance c(5);
  for (double t = 0; t < 200; t += c.gap(64)) s.requests.push_back(plain_request(t, c));
  return s;
}

// Plain requests, for what is seen of the fleet and how old it is.
inline scenario plain_load() {
  scenario s;
  s.fleet.assign(16, {});
  chance c(4);
  for (double t = 0; t < 200; t += c.gap(80)) s.requests.push_back(plain_request(t, c));
  return s;
}

// Agents in turn, whatever they do.
class in_turn final : public rule {
 public:
  uint32_t choose(double, const arrival &, const std::vector<agent_state> &seen) override {
    return static_cast<uint32_t>(next_++ % seen.size());
  }

 private:
  size_t next_ = 0;
};

// A rule that sees the fleet as it was up to `age_s` ago, as a router sees what others do.
class seen_late final : public rule {
 public:
  seen_late(rule &by, double age_s) : by_(by), age_s_(age_s) {}
  uint32_t choose(double now_s, const arrival &a, const std::vector<agent_state> &seen) override {
    if (old_.empty() || now_s - at_s_ >= age_s_) {
      old_ = seen;
      at_s_ = now_s;
    }
    return by_.choose(now_s, a, old_);
  }
  void tell(double now_s, const outcome &o) override { by_.tell(now_s, o); }

 private:
  rule &by_;
  double age_s_;
  std::vector<agent_state> old_;
  double at_s_ = 0;
};

inline run_result run(const scenario &s, const std::string &strategy, const std::string &options = "") {
  plugin_rule by(strategy, options, static_cast<uint32_t>(s.fleet.size()));
  return simulate(s.requests, s.fleet, by);
}

// The real trace on eight engines with so many blocks of cache each.
inline scenario conversations(size_t blocks, double speed, uint32_t ahead = 0) {
  scenario s;
  s.requests = read_trace(TRACE_DIR "/mooncake-conversation-a.txt", speed, ahead);
  engine_kind k;
  k.cache_blocks = blocks;
  s.fleet.assign(8, k);
  return s;
}

}  // namespace hive::simulation
