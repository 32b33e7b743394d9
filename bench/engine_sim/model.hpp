// The engine that the simulator pretends to be: continuous batching with a bounded number of sequences and a bounded
// KV cache. Every step each running sequence gets one token; prompts cost time before their first. One loop, no lock.
//
// Spread: every sequence keeps its own beat, from a random moment within one step on, as if each had an engine to itself. That is
// the dearest load for a proxy: no two events come together.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.hpp"
#include "engine_sim/prefix_cache.hpp"

namespace hive::sim {

struct model_options {
  uint32_t max_sequences = 8;
  uint64_t kv_tokens = 100'000;           // sequences beyond wait
  double prefill_tokens_per_ms = 0;       // 0 = prompts cost nothing
  uint64_t step_ns = 0;                   // between two tokens of one sequence; 0 = all at once
  bool spread = false;                    // with a step only
  uint64_t first_token_ns = 0;            // before the first token of every request
  bool prefix_caching = false;            // prompts of kv_tokens are kept; what is cached costs no prefill
};

// One request in the engine. Destroying it before it is done is an abort.
class sequence {
 public:
  virtual ~sequence() = default;
  virtual void on_tokens(uint32_t count, bool last) = 0;  // count > 1 only when steps take no time

  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;             // set when it is admitted
  std::string prompt;                     // its bytes, with prefix caching
  uint32_t wanted_tokens = 0;

 private:
  friend class engine_model;
  uint32_t produced_ = 0;
  uint64_t admitted_ns_ = 0;
  uint64_t first_due_ns_ = 0;
  uint64_t beat_ns_ = 0;                  // of its next token; spread only
  bool running_ = false;
};

struct histogram {
  explicit histogram(std::vector<double> b) : bounds(std::move(b)), counts(bounds.size() + 1) {}
  void observe(double v);
  std::vector<double> bounds;
  std::vector<uint64_t> counts;
  double sum = 0;
};

class engine_model {
 public:
  engine_model(loop &, const model_options &);
  void admit(sequence &);
  void leave(sequence &);                 // done or aborted; no-op when unknown
  model_options &options() { return options_; }

  size_t running() const { return running_.size(); }
  size_t waiting() const { return waiting_.size(); }
  double kv_used() const { return options_.kv_tokens == 0 ? 0 : double(kv_) / double(options_.kv_tokens); }
  uint64_t prompt_total = 0, cached_total = 0, generation_total = 0, finished = 0, aborted = 0, aborted_at_ns = 0;
  histogram ttft{{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}};
  histogram itl{{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1}};

 private:
  void fill();
  void step();
  void give(sequence &);
  bool spread() const { return options_.spread && options_.step_ns > 0; }
  void await_beat();
  void beat();

  loop &loop_;
  model_options options_;
  std::vector<sequence *> running_;
  std::deque<sequence *> waiting_;
  uint64_t kv_ = 0;
  prefix_cache cache_;
  callback_timer step_timer_;
  std::set<std::pair<uint64_t, sequence *>> beats_;
  boost::asio::steady_timer beat_timer_;  // the wheel's 8 ms would bring beats together again
  uint64_t beat_due_ns_ = 0;              // 0 = it sleeps
  std::minstd_rand random_{1};
};

}  // namespace hive::sim
