#include "engine_sim/model.hpp"

#include <algorithm>
#include <chrono>

namespace hive::sim {

void histogram::observe(double v) {
  const auto at = std::lower_bound(bounds.begin(), bounds.end(), v);
  ++counts[static_cast<size_t>(at - bounds.begin())];
  sum += v;
}

engine_model::engine_model(loop &l, const model_options &options)
    : loop_(l), options_(options), cache_(options.kv_tokens), step_timer_([this] { step(); }), beat_timer_(l.io()) {}

void engine_model::admit(sequence &s) {
  s.admitted_ns_ = now_ns();
  waiting_.push_back(&s);
  fill();
}

void engine_model::fill() {
  const uint64_t now = now_ns();
  while (!waiting_.empty() && running_.size() < options_.max_sequences) {
    sequence &s = *waiting_.front();
    if (!running_.empty() && kv_ + s.prompt_tokens + s.wanted_tokens > options_.kv_tokens) break;
    waiting_.pop_front();
    running_.push_back(&s);
    s.running_ = true;
    kv_ += s.prompt_tokens + s.wanted_tokens;
    prompt_total += s.prompt_tokens;
    if (options_.prefix_caching) s.cached_tokens = std::min(s.prompt_tokens, cache_.enter(s.prompt));
    cached_total += s.cached_tokens;
    const double prefill_ms =
        options_.prefill_tokens_per_ms > 0 ? double(s.prompt_tokens - s.cached_tokens) / options_.prefill_tokens_per_ms : 0;
    s.first_due_ns_ = now + options_.first_token_ns + static_cast<uint64_t>(prefill_ms * double(ns_per_ms));
    if (spread()) {
      s.beat_ns_ = s.first_due_ns_ + random_() % options_.step_ns;
      beats_.emplace(s.beat_ns_, &s);
    }
  }
  if (spread()) return await_beat();
  if (running_.empty()) {
    step_timer_.disarm();
  } else if (!step_timer_.armed() || options_.step_ns == 0) {
    uint64_t due = now + options_.step_ns;
    if (options_.step_ns == 0) {
      due = running_.front()->first_due_ns_;
      for (const sequence *s : running_) due = std::min(due, s->first_due_ns_);
    }
    if (due <= now) loop_.post([this] { step(); });
    else loop_.arm(step_timer_, due);
  }
}

void engine_model::give(sequence &s) {
  const uint32_t left = s.wanted_tokens - s.produced_;
  const uint32_t count = options_.step_ns == 0 ? left : std::min<uint32_t>(left, 1);
  if (s.produced_ == 0) ttft.observe(double(now_ns() - s.admitted_ns_) / double(ns_per_s));  // waiting included
  else itl.observe(double(options_.step_ns) / double(ns_per_s));
  s.produced_ += count;
  generation_total += count;
  const bool last = s.produced_ >= s.wanted_tokens;
  s.on_tokens(count, last);  // may call leave
}

void engine_model::step() {
  const uint64_t now = now_ns();
  const std::vector<sequence *> batch = running_;
  for (sequence *s : batch) {
    if (std::find(running_.begin(), running_.end(), s) == running_.end()) continue;
    if (s->first_due_ns_ <= now + ns_per_ms / 2) give(*s);
  }
  fill();
}

void engine_model::await_beat() {
  if (beats_.empty() || (beat_due_ns_ != 0 && beat_due_ns_ <= beats_.begin()->first)) return;
  beat_due_ns_ = beats_.begin()->first;
  beat_timer_.expires_at(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(beat_due_ns_)));
  beat_timer_.async_wait([this](const boost::system::error_code &error) {
    if (error) return;  // moved to an earlier beat: that wait is still to come
    beat_due_ns_ = 0;
    beat();
  });
}

void engine_model::beat() {
  const uint64_t now = now_ns();
  while (!beats_.empty() && beats_.begin()->first <= now) {
    sequence &s = *beats_.begin()->second;
    beats_.erase(beats_.begin());
    s.beat_ns_ += options_.step_ns;  // never drifts: a late token does not delay the next
    beats_.emplace(s.beat_ns_, &s);
    give(s);
  }
  await_beat();
}

void engine_model::leave(sequence &s) {
  if (s.running_) {
    beats_.erase({s.beat_ns_, &s});
    std::erase(running_, &s);
    s.running_ = false;
    kv_ -= s.prompt_tokens + s.wanted_tokens;
  } else if (std::erase(waiting_, &s) == 0) {
    return;
  }
  if (s.produced_ >= s.wanted_tokens && s.wanted_tokens > 0) {
    ++finished;
  } else {
    ++aborted;
    aborted_at_ns = now_ns();
  }
  loop_.post([this] { fill(); });
}

}  // namespace hive::sim
