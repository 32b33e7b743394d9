// The engine that the simulator pretends to be: continuous batching with a bounded number of sequences and a bounded
// KV cache. Every step each running sequence gets one token; prompts cost time before their first. One loop, no lock.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/loop.hpp"

namespace hive::sim {

struct model_options {
  uint32_t max_sequences = 8;
  uint64_t kv_tokens = 100'000;           // sequences beyond wait
  double prefill_tokens_per_ms = 0;       // 0 = prompts cost nothing
  uint64_t step_ns = 0;                   // between two tokens of one sequence; 0 = all at once
  uint64_t first_token_ns = 0;            // before the first token of every request
};

// One request in the engine. Destroying it before it is done is an abort.
class sequence {
 public:
  virtual ~sequence() = default;
  virtual void on_tokens(uint32_t count, bool last) = 0;  // count > 1 only when steps take no time

  uint64_t prompt_tokens = 0;
  uint32_t wanted_tokens = 0;

 private:
  friend class engine_model;
  uint32_t produced_ = 0;
  uint64_t admitted_ns_ = 0;
  uint64_t first_due_ns_ = 0;
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
  uint64_t prompt_total = 0, generation_total = 0, finished = 0, aborted = 0;
  histogram ttft{{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}};
  histogram itl{{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1}};

 private:
  void fill();
  void step();
  void give(sequence &);

  loop &loop_;
  model_options options_;
  std::vector<sequence *> running_;
  std::deque<sequence *> waiting_;
  uint64_t kv_ = 0;
  callback_timer step_timer_;
};

}  // namespace hive::sim
