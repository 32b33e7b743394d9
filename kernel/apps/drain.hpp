// How a router leaves: when it says so, refuses new work, cuts what is left, closes its doors and stops. Decides only; the
// program carries it out. drain_plan belongs to the control thread, a survey to it and the workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.hpp"

namespace hive::apps {

// A number asked of every worker; the sum is known when all have answered, and never from answers to an older question.
class survey {
 public:
  explicit survey(size_t workers) : answers_(workers) {}
  uint64_t ask();                                             // [control] the number of the new round
  void answer(size_t worker, uint64_t round, size_t number);  // any thread
  std::optional<size_t> total() const;

 private:
  mutable std::mutex mutex_;                                  // guards all below
  std::vector<std::optional<size_t>> answers_;
  uint64_t round_ = 0;
};

struct drain_limits {
  uint64_t delay_ns = 0;                  // readiness is gone, work is still taken
  uint64_t timeout_ns = 30 * ns_per_s;    // from then on, until what runs is cut
  uint64_t cut_ns = 500 * ns_per_ms;      // for the last words of what was cut
  uint64_t close_ns = ns_per_s;           // for connections that were accepted last
};

class drain_plan {
 public:
  enum class act {
    none,
    refuse,   // inference gets 503, every answer closes its connection; the doors stay open for /health
    cut,      // what still runs gets an error
    close,    // stop accepting, close what is idle
    stop,
  };

  explicit drain_plan(const drain_limits &limits) : limits_(limits) {}
  void begin(uint64_t now_ns);
  bool begun() const { return phase_ != phase::serving; }
  // `busy`: connections with a request or an answer on its way, asked after the last act; empty = not all workers have said.
  act step(uint64_t now_ns, std::optional<size_t> busy);

 private:
  enum class phase { serving, announced, refusing, cutting, closing, over };
  act enter(phase next, uint64_t deadline_ns, act what);

  const drain_limits limits_;
  phase phase_ = phase::serving;
  uint64_t deadline_ns_ = 0;              // of the phase
};

}  // namespace hive::apps
