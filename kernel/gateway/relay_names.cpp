// What a relay knows under two names: the model that was asked for by an alias, and the answer's fields about who served it.
#include <utility>

#include "gateway/relay.hpp"

namespace hive::gateway {

// Before the key's rules and the policies are asked: they know models, not aliases. The new body is read again, so that all that
// was found in it is where it says.
std::optional<scan_error> relay::resolve_alias() {
  if (context_.options.names == nullptr) return std::nullopt;
  const std::string model = context_.options.names->model_of(scan_.model);
  if (model.empty()) return std::nullopt;
  alias_ = std::move(scan_.model);
  body_ = with_model(*body_, scan_.model_at, model, is_form_body(), context_.memory);
  return scan_body();
}

// The agent and step of the last attempt, when there was one. A step's name is whatever its policy calls it.
void relay::expose_routing(std::vector<http::field> &fields) {
  if (!context_.options.expose_routing) return;
  told_step_ = step_;
  for (char &c : told_step_)
    if (c < 0x20 || c > 0x7e) c = '?';
  told_attempts_ = std::to_string(session_ ? session_->attempts() : 0);
  told_queue_ = std::to_string(session_ ? session_->queue_ns() / ns_per_ms : 0);
  if (!agent_.empty()) fields.push_back({"X-Hivenet-Agent", agent_});
  if (!step_.empty()) fields.push_back({"X-Hivenet-Step", told_step_});
  fields.push_back({"X-Hivenet-Attempts", told_attempts_});
  fields.push_back({"X-Hivenet-Queue-Ms", told_queue_});
}

}  // namespace hive::gateway
