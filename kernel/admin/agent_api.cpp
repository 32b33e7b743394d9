#include "admin/agent_api.hpp"

#include <boost/json.hpp>

#include "admin/answers.hpp"
#include "base/text.hpp"
#include "observe/log.hpp"

namespace hive::admin {

namespace json = boost::json;
using gateway::admin_answer;
using gateway::admin_request;

namespace {

constexpr uint64_t kick_retry_ms = 1000;
constexpr size_t most_reason_bytes = 1024;

// {"reason": "..."}, or nothing at all.
result<std::string> reason_of(const std::string &body) {
  if (trim(body).empty()) return std::string();
  boost::system::error_code error;
  const json::value v = json::parse(body, error);
  const json::value *reason = !error && v.is_object() ? v.get_object().if_contains("reason") : nullptr;
  if (reason == nullptr || !reason->is_string() || v.get_object().size() != 1)
    return fail(errc::invalid, "the body must be empty or {\"reason\": \"...\"}");
  if (reason->get_string().size() > most_reason_bytes) return fail(errc::invalid, "the reason has more than 1024 bytes");
  return std::string(reason->get_string());
}

}  // namespace

void agent_api::kick(const admin_request &r, const std::string &peer_id, const reply_fn &reply) {
  if (!fleet_.disconnect(peer_id, {"kicked", "the operator ended this session", kick_retry_ms, false}))
    return reply(refusal(404, "no such agent, or it has no link"));
  observe::log("api").info("{} ends the session of agent {}", r.asked_by(), peer_id);
  reply(answer_of(200, {{"peer_id", peer_id}, {"kicked", true}}));
}

void agent_api::revoked(const admin_request &r, const std::string &peer_id, const reply_fn &reply) {
  if (r.method == "PUT") revoke(r, peer_id, reply);
  else restore(r, peer_id, reply);
}

void agent_api::revoke(const admin_request &r, const std::string &peer_id, const reply_fn &reply) {
  const auto reason = reason_of(r.body);
  if (!reason) return reply(refusal(reason.why()));
  const status taken = roster_.revoke(peer_id, *reason, r.client, [peer_id, reply](const status &stored) {
    if (!stored)
      return reply(refusal({stored.code(), "the agent is revoked until the router restarts, and it could not be stored: " + stored.message(),
                            stored.path()}));
    reply(answer_of(200, {{"peer_id", peer_id}, {"revoked", true}}));
  });
  if (!taken) return reply(refusal(taken));
  fleet_.disconnect(peer_id, {"revoked", "the operator has revoked this identity", fleet::refused_retry_ms, true});
  observe::log("api").warn("{} revokes agent {}", r.asked_by(), peer_id);
}

void agent_api::restore(const admin_request &r, const std::string &peer_id, const reply_fn &reply) {
  const status taken = roster_.restore(peer_id, [peer_id, reply](const status &stored) {
    if (!stored)
      return reply(refusal({stored.code(), "the agent may come back until the router restarts, and that could not be stored: " + stored.message(),
                            stored.path()}));
    reply(answer_of(200, {{"peer_id", peer_id}, {"revoked", false}}));
  });
  if (!taken) return reply(refusal(taken));
  observe::log("api").warn("{} takes back the revocation of agent {}", r.asked_by(), peer_id);
}

void agent_api::list_revoked(const reply_fn &reply) const {
  json::array all;
  for (const fleet::revocation &r : roster_.revoked()) {
    json::object one{{"peer_id", r.peer_id}, {"reason", r.reason}, {"by", r.by}, {"in_file", r.of_file}};
    if (r.since_unix_ms != 0) one["since"] = rfc3339_ms(r.since_unix_ms);
    else one["since"] = nullptr;
    all.push_back(std::move(one));
  }
  const size_t count = all.size();
  reply(answer_of(200, {{"revoked", std::move(all)}, {"count", count}}));
}

}  // namespace hive::admin
