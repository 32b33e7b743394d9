#include "gateway/recent_requests.hpp"

#include <utility>

namespace hive::gateway {

namespace {

constexpr size_t most_text = 256;  // of a caller's word; an id that long is no id of ours

}  // namespace

void recent_requests::add(const request_record &r) {
  if (!r.inference || ring_.empty()) return;
  const std::lock_guard lock(mutex_);
  recent_request &e = ring_[next_];
  next_ = (next_ + 1) % ring_.size();
  const std::pair<std::string *, std::string_view> texts[] = {{&e.request_id, r.request_id}, {&e.route, r.route}, {&e.model, r.model},
                                                              {&e.tenant, r.tenant},         {&e.agent, r.agent}, {&e.step, r.step},
                                                              {&e.error_code, r.error_code}};
  for (const auto &[to, from] : texts) to->assign(from.substr(0, most_text));
  e.how = r.how;
  e.status = r.status;
  e.streaming = r.streaming;
  e.attempts = r.attempts;
  e.started_unix_ms = r.started_unix_ms;
  e.duration_ns = r.duration_ns;
  e.queue_ns = r.queue_ns;
  e.estimated_prompt_tokens = r.estimated_prompt_tokens;
  e.declared_output_tokens = r.declared_output_tokens;
}

std::optional<recent_request> recent_requests::find(std::string_view request_id) const {
  if (request_id.empty()) return {};
  const std::lock_guard lock(mutex_);
  for (size_t k = 1; k <= ring_.size(); ++k) {
    const recent_request &e = ring_[(next_ + ring_.size() - k) % ring_.size()];
    if (e.request_id == request_id) return e;
  }
  return {};
}

}  // namespace hive::gateway
