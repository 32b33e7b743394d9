// What a relay does when memory is short or time is up: holding, giving credit, and ending for others' sake.
#include <utility>

#include "gateway/relay.hpp"

namespace hive::gateway {

void relay::hold(std::string_view bytes) {
  held_.append(bytes);
  held_claim_.set(held_.capacity());
}

void relay::let_go() {
  held_ = std::string();
  held_claim_.set(0);
}

// While the budget is exceeded an answer that holds much gets no credit: its engine stops, nobody else's does.
void relay::give_credit() {
  if (!stream_ || owed_ == 0) return;
  if (short_of_memory() && exchange_.unwritten() > context_.options.short_stream_bytes) return;
  stream_->consumed(std::exchange(owed_, 0));
}

size_t relay::unsent() const { return exchange_.unwritten() + held_.size(); }

void relay::end_slow() { exchange_.drop(); }

void relay::shut_down() {
  if (recorded_) return;
  drop_stream(link::cause::shutdown);
  end_attempt(routing::attempt_result::cancelled);
  const api_error error = make_error("shutting_down", "the router is shutting down", "router", 1);
  if (committed_) return break_off(ended::shutdown, error);
  refuse(ended::shutdown, error);
}

}  // namespace hive::gateway
