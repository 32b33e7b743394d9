#include "admin/action_log.hpp"

#include <utility>

#include "base/clock.hpp"
#include "gateway/routes.hpp"

namespace hive::admin {

bool changes(const gateway::admin_request &r) {
  return r.method != "GET" && r.method != "HEAD" && r.method != "OPTIONS" && r.path != "/admin/explain";
}

std::string target_of(std::string_view route, std::string_view path) {
  const size_t open = route.find_first_of(":*");
  if (open == std::string_view::npos || !path.starts_with(route.substr(0, open))) return {};
  path.remove_prefix(open);
  if (route[open] == ':') {
    const size_t close = route.find('/', open);
    const std::string_view tail = close == std::string_view::npos ? std::string_view() : route.substr(close);
    if (path.ends_with(tail)) path.remove_suffix(tail.size());
  }
  return gateway::percent_decode(path);
}

action_log::reply_fn action_log::watching(const gateway::admin_request &request, reply_fn reply, secret_test secret) const {
  if (log_ == nullptr || !changes(request)) return reply;
  struct who {
    std::string request_id, key_id, method, path, client;
    uint64_t began_ns, began_unix_ms;
  };
  who w{request.request_id, request.caller.key_id, request.method, request.path, request.client, now_ns(), unix_ms()};
  return [log = log_, w = std::move(w), reply = std::move(reply), secret = std::move(secret)](gateway::admin_answer answer) {
    if (!answer.route.empty() && answer.route != "unmatched") {
      const std::string target = target_of(answer.route, w.path);
      observe::admin_action a;
      a.request_id = w.request_id;
      a.admin_key_id = w.key_id;
      a.method = w.method;
      a.route = answer.route;
      a.target = secret && !target.empty() && secret(target) ? observe::hidden_target : std::string_view(target);
      a.status_code = answer.status;
      a.latency_ms = (now_ns() - w.began_ns) / ns_per_ms;
      a.source_ip = w.client;
      a.started_unix_ms = w.began_unix_ms;
      log->write(a);
    }
    reply(std::move(answer));
  };
}

}  // namespace hive::admin
