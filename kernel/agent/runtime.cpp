#include "agent/runtime.hpp"

#include <utility>

namespace hive::agent {

runtime::runtime(std::vector<loop *> data, loop &control_loop, const engine_codec &codec, http::origin engine, const agent_options &options,
                 link::identity identity)
    : control_loop_(control_loop),
      options_(options),
      identity_(std::move(identity)),
      slots_(options.capacity),
      drain_timer_([this] { wait_for_streams(); }) {
  half_events &heard_here = *this;
  for (loop *home : data) halves_.push_back(std::make_unique<data_half>(*home, codec, engine, options_, identity_, slots_, heard_here));
  control_events &news_here = *this;
  control_ = std::make_unique<control>(control_loop, codec, std::move(engine), options_, slots_, news_here);
}

runtime::~runtime() = default;

void runtime::start() {
  control_loop_.post([this] { control_->start(); });
}

void runtime::stop_control() { control_->stop(); }

// [control loop]
void runtime::on_engine(bool ready, const std::string &reason, const std::vector<std::string> &models) {
  for (size_t i = 0; i < halves_.size(); ++i)
    halves_[i]->home().post([half = halves_[i].get(), speaks = i == 0, ready, reason, models] {
      half->set_engine(ready, reason, models);
      if (speaks && ready) half->dial();
    });
}

// [control loop]
void runtime::on_signals(std::vector<sampled_signal> signals, std::string structured_json) {
  data_half *speaker = halves_.front().get();
  speaker->home().post([speaker, signals = std::move(signals), structured = std::move(structured_json)] {
    speaker->send_signals(signals, structured);
  });
}

// A router takes the other links of an agent when it has welcomed the first one. A half that dials by then keeps on by itself.
void runtime::on_registered(size_t) {
  for (size_t i = 1; i < halves_.size(); ++i) halves_[i]->home().post([half = halves_[i].get()] { half->dial(); });
}

void runtime::on_drain_asked(size_t router, uint64_t deadline_ms) {
  for (auto &h : halves_) h->home().post([half = h.get(), router, deadline_ms] { half->drain_for(router, deadline_ms); });
}

void runtime::drain(uint64_t limit_ns, std::function<void()> done) {
  halves_.front()->home().post([this, limit_ns, done = std::move(done)]() mutable {
    halves_.front()->drain(limit_ns / ns_per_ms);
    drain_deadline_ns_ = now_ns() + limit_ns;
    drained_ = std::move(done);
    wait_for_streams();
  });
}

void runtime::wait_for_streams() {
  data_half &half = *halves_.front();
  if (in_flight() > 0 && now_ns() < drain_deadline_ns_) return half.home().arm_in(drain_timer_, 20 * ns_per_ms);
  control_loop_.post([this] { control_->stop(); });
  half.goodbye([this] { drained_(); });
}

}  // namespace hive::agent
