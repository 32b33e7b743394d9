#include "apps/drain.hpp"

namespace hive::apps {

uint64_t survey::ask() {
  const std::lock_guard guard(mutex_);
  for (auto &a : answers_) a.reset();
  return ++round_;
}

void survey::answer(size_t worker, uint64_t round, size_t number) {
  const std::lock_guard guard(mutex_);
  if (round == round_) answers_[worker] = number;
}

std::optional<size_t> survey::total() const {
  const std::lock_guard guard(mutex_);
  size_t sum = 0;
  for (const auto &a : answers_) {
    if (!a) return std::nullopt;
    sum += *a;
  }
  return sum;
}

void drain_plan::begin(uint64_t now_ns) {
  if (!begun()) enter(phase::announced, now_ns + limits_.delay_ns, act::none);
}

drain_plan::act drain_plan::enter(phase next, uint64_t deadline_ns, act what) {
  phase_ = next;
  deadline_ns_ = deadline_ns;
  return what;
}

drain_plan::act drain_plan::step(uint64_t now_ns, std::optional<size_t> busy) {
  const bool late = now_ns >= deadline_ns_;
  const bool idle = busy == size_t{0};
  switch (phase_) {
    case phase::serving: return act::none;
    case phase::announced: return late ? enter(phase::refusing, now_ns + limits_.timeout_ns, act::refuse) : act::none;
    case phase::refusing:
      if (idle) return enter(phase::closing, now_ns + limits_.close_ns, act::close);
      return late ? enter(phase::cutting, now_ns + limits_.cut_ns, act::cut) : act::none;
    case phase::cutting: return idle || late ? enter(phase::closing, now_ns + limits_.close_ns, act::close) : act::none;
    case phase::closing: return idle || late ? enter(phase::over, never_ns, act::stop) : act::none;
    case phase::over: return act::none;
  }
  return act::none;
}

}  // namespace hive::apps
