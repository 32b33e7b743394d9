#include "providers/calls.hpp"

#include <utility>

#include "base/json_text.hpp"
#include "providers/call.hpp"
#include "providers/json_read.hpp"
#include "providers/refusal.hpp"

namespace hive::providers {

namespace {

// The same request for another model: no other byte changes.
std::string with_model(const call_order &order) {
  const std::string_view body = *order.body;
  std::string out;
  out.reserve(body.size() + order.model.size() + 2);
  out += body.substr(0, order.model_offset);
  append_json_string(out, order.model);
  out += body.substr(order.model_offset + order.model_length);
  return out;
}

}  // namespace

provider_calls::provider_calls(loop &home, std::shared_ptr<const provider_set> set, call_metrics &metrics, const call_limits &limits)
    : home_(home), set_(std::move(set)), metrics_(metrics), limits_(limits) {}

provider_calls::~provider_calls() = default;

http::client &provider_calls::client_of(const provider &p) {
  auto &made = clients_[static_cast<size_t>(p.kind)];
  if (!made) {
    http::client_options o;
    o.connect_timeout_ns = limits_.connect_ns;
    // A kept connection may die under a request that the provider has begun to serve, and to charge for, and the client would
    // send it again on another.
    o.max_kept = 0;
    o.max_answer_bytes = limits_.answer_bytes;
    o.trust = set_->trust();
    made = std::make_unique<http::client>(home_, p.at, o);
  }
  return *made;
}

std::string provider_calls::for_log(std::string_view engine, std::string_view words) const {
  const provider *who = set_->find(engine);
  return providers::for_log(words, who == nullptr ? std::string_view() : std::string_view(who->key));
}

std::unique_ptr<link::router_stream> provider_calls::open(const call_order &order, link::stream_events &events, status &why) {
  const provider *to = set_->find(order.engine);
  if (to == nullptr) {
    why = set_->judge(order.engine);
    return nullptr;
  }
  std::string body;
  bool tools = false, include_usage = false;
  if (spoken_by(to->kind, order.asked) == order.asked) {
    body = with_model(order);
  } else {
    auto made = order.asked == api::chat ? messages_request(*order.body, order.model) : chat_request(*order.body, order.model);
    if (!made) {
      why = made.why();
      return nullptr;
    }
    body = *std::move(made);
    if (const auto read = read_object(*order.body, "the request")) {
      const json::array *offered = array_in(*read, "tools");
      tools = offered != nullptr && !offered->empty();
      const json::object *options = object_in(*read, "stream_options");
      include_usage = options != nullptr && true_in(*options, "include_usage");
    }
  }
  auto made = std::make_unique<running_call>(*to, order, tools, include_usage, limits_, metrics_, events);
  made->start(client_of(*to), std::move(body), order);
  return made;
}

}  // namespace hive::providers
