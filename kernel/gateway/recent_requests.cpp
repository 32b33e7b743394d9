#include "gateway/recent_requests.hpp"

#include <iterator>

namespace hive::gateway {

namespace {

constexpr size_t most_text = 256;  // of a caller's word; an id that long is no id of ours

}  // namespace

void recent_requests::add(const request_record &r) {
  if (!r.inference || ring_.empty()) return;
  const std::lock_guard lock(mutex_);
  entry &e = ring_[next_];
  next_ = (next_ + 1) % ring_.size();
  const std::string_view texts[] = {r.request_id, r.route, r.model, r.tenant, r.agent, r.step, r.error_code};
  e.texts.clear();
  for (size_t i = 0; i < std::size(texts); ++i) {
    const std::string_view text = texts[i].substr(0, most_text);
    e.lengths[i] = static_cast<uint16_t>(text.size());
    e.texts += text;
  }
  e.how = r.how;
  e.status = r.status;
  e.streaming = r.streaming;
  e.attempts = r.attempts;
  e.started_unix_ms = r.started_unix_ms;
  e.duration_ns = r.duration_ns;
  e.queue_ns = r.queue_ns;
  e.estimated_prompt_tokens = r.estimated_prompt_tokens;
  e.declared_output_tokens = r.output_footprint;
}

std::optional<recent_request> recent_requests::find(std::string_view request_id) const {
  if (request_id.empty()) return {};
  const std::lock_guard lock(mutex_);
  for (size_t k = 1; k <= ring_.size(); ++k) {
    const entry &e = ring_[(next_ + ring_.size() - k) % ring_.size()];
    std::string_view rest = e.texts;
    if (rest.substr(0, e.lengths[0]) != request_id) continue;
    recent_request found{e, {}, {}, {}, {}, {}, {}, {}};
    std::string *const texts[] = {&found.request_id, &found.route, &found.model, &found.tenant, &found.agent, &found.step, &found.error_code};
    for (size_t i = 0; i < std::size(texts); ++i) {
      *texts[i] = rest.substr(0, e.lengths[i]);
      rest.remove_prefix(e.lengths[i]);
    }
    return found;
  }
  return {};
}

}  // namespace hive::gateway
