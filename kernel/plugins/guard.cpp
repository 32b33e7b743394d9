#include "plugins/guard.hpp"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <bit>

namespace hive::plugins {

constinit thread_local const crash_marker *on_stack = nullptr;

namespace {

constexpr int watched[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS};
struct sigaction before[64];

void put(const char *s) {
  if (write(2, s, strlen(s)) < 0) return;
}

// write(2) and sigaction(2) only: nothing else is safe here.
void on_crash(int signal_number) {
  if (const crash_marker *m = on_stack; m != nullptr) {
    put("hivenet: crashed inside plugin component ");
    put(m->component.data());
    put(", instance ");
    put(m->instance.data());
    put("\n");
  }
  sigaction(signal_number, &before[signal_number], nullptr);
  raise(signal_number);
}

}  // namespace

void install_crash_handler() {
  struct sigaction a {};
  a.sa_handler = on_crash;
  sigemptyset(&a.sa_mask);
  a.sa_flags = SA_ONSTACK;
  for (const int s : watched) sigaction(s, &a, &before[s]);
}

bool circuit::closed(uint64_t now) {
  uint64_t until = until_.load(std::memory_order_relaxed);
  if (until == 0) return true;
  if (now < until) return false;
  // Half open: whoever moves the time on makes the one trial call.
  return until_.compare_exchange_strong(until, now + open_ns_, std::memory_order_relaxed);
}

void circuit::close() {
  streak_.store(0, std::memory_order_relaxed);
  until_.store(0, std::memory_order_relaxed);
}

void circuit::bad(uint64_t now) {
  if (streak_.fetch_add(1, std::memory_order_relaxed) + 1 >= limit_) until_.store(now + open_ns_, std::memory_order_relaxed);
}

call_stats::totals &call_stats::totals::operator+=(const totals &o) {
  calls += o.calls;
  failures += o.failures;
  wrong_answers += o.wrong_answers;
  sampled += o.sampled;
  sampled_ns += o.sampled_ns;
  for (size_t k = 0; k < took.size(); ++k) took[k] += o.took[k];
  return *this;
}

void call_stats::took(uint64_t ns) {
  const size_t k = std::min<size_t>(std::bit_width(ns), buckets_.size() - 1);
  buckets_[k].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(ns, std::memory_order_relaxed);
  uint64_t m = max_.load(std::memory_order_relaxed);
  while (ns > m && !max_.compare_exchange_weak(m, ns, std::memory_order_relaxed)) {
  }
}

void call_stats::failed(std::string_view why, bool wrong) {
  (wrong ? wrong_ : failures_).fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  last_error_.assign(why.substr(0, 500));
}

call_stats::snapshot call_stats::read() const {
  snapshot s;
  s.calls = calls_.load(std::memory_order_relaxed);
  s.failures = failures_.load(std::memory_order_relaxed);
  s.wrong_answers = wrong_.load(std::memory_order_relaxed);
  s.max_ns = max_.load(std::memory_order_relaxed);
  s.sampled_ns = sum_.load(std::memory_order_relaxed);
  for (size_t k = 0; k < s.took.size(); ++k) s.sampled += s.took[k] = buckets_[k].load(std::memory_order_relaxed);
  uint64_t below = 0;
  for (size_t k = 0; k < s.took.size() && s.sampled != 0; ++k) {
    below += s.took[k];
    if (s.p50_ns == 0 && below * 2 >= s.sampled) s.p50_ns = uint64_t{1} << k;
    if (s.p99_ns == 0 && below * 100 >= s.sampled * 99) s.p99_ns = uint64_t{1} << k;
  }
  std::lock_guard lock(mutex_);
  s.last_error = last_error_;
  return s;
}

}  // namespace hive::plugins
