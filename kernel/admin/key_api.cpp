#include "admin/key_api.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value_from.hpp>

#include <utility>

#include "admin/answers.hpp"
#include "base/clock.hpp"
#include "base/digest.hpp"
#include "base/text.hpp"
#include "config/yaml.hpp"
#include "gateway/routes.hpp"
#include "observe/log.hpp"
#include "tenancy/auth_file.hpp"

namespace hive::admin {

namespace json = boost::json;
using gateway::admin_answer;
using gateway::admin_request;

namespace {

constexpr size_t most_warnings = 20;

result<json::object> object_of(const std::string &body) {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = 16;
  const json::value value = json::parse(body, error, {}, options);
  if (error) return fail(errc::invalid, "the body is no JSON: " + error.message());
  if (!value.is_object()) return fail(errc::invalid, "the body must be a JSON object");
  return value.get_object();
}

result<std::string> version_of(const json::object &body) {
  const json::value *found = body.if_contains("version");
  if (found == nullptr || !found->is_string()) return fail(errc::invalid, "version is required, as text");
  return std::string(found->get_string());
}

// Of a form-encoded query: a plus sign is a space.
std::string query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const size_t end = query.find('&');
    std::string part(query.substr(0, end));
    query.remove_prefix(end == std::string_view::npos ? query.size() : end + 1);
    for (char &c : part)
      if (c == '+') c = ' ';
    const size_t is = part.find('=');
    if (gateway::percent_decode(part.substr(0, is)) == name) return is == std::string::npos ? "" : gateway::percent_decode(part.substr(is + 1));
  }
  return {};
}

}  // namespace

bool key_api::absent(const reply_fn &reply) const {
  if (registry_ != nullptr) return false;
  reply(refusal(501, "dynamic key registry not active"));
  return true;
}

void key_api::list(const reply_fn &reply) const {
  if (absent(reply)) return;
  json::array keys;
  for (const auto &[id, entry] : registry_->now().entries) keys.push_back(tenancy::to_json(*entry));
  const size_t count = keys.size();
  reply(answer_of(200, {{"keys", std::move(keys)}, {"count", count}}));
}

void key_api::version(const reply_fn &reply) const {
  if (absent(reply)) return;
  reply(answer_of(200, {{"version", registry_->now().version}, {"count", registry_->now().entries.size()}}));
}

void key_api::one(const admin_request &request, const std::string &id, const reply_fn &reply) {
  if (absent(reply)) return;
  const std::string trimmed(trim(id));
  if (const status s = tenancy::check_key_id(trimmed); !s) return reply(refusal(s));
  // Of a question; a change with a key for an id is refused before this, whatever it is about (api.cpp).
  if (registry_->keys()->find(sha256(trimmed)) != nullptr)
    return reply(refusal(fail(errc::invalid, "that is a client key and no id; name the entry by its id, and exchange the key: it stood in a path")));
  if (request.method == "PUT") return put(request, trimmed, reply);
  if (request.method == "DELETE")
    return registry_->erase(trimmed, query_value(request.query, "version"), request.asked_by(),
                            [this, reply](const status &s) { finish(s, {{"ok", true}}, {}, reply); });
  const auto found = registry_->now().entries.find(trimmed);
  if (found == registry_->now().entries.end()) return reply(refusal(fail(errc::not_found, "key not found: " + trimmed)));
  reply(answer_of(200, {{"key", tenancy::to_json(*found->second)}}));
}

void key_api::put(const admin_request &request, const std::string &id, const reply_fn &reply) {
  const auto body = object_of(request.body);
  if (!body) return reply(refusal(body.why()));
  const auto version = version_of(*body);
  if (!version) return reply(refusal(version.why()));
  std::vector<std::string> warnings;
  auto entry = tenancy::read_key_entry(config::yaml::from_json(*body, {}), id, {strict_, unix_ms()}, warnings);
  if (!entry) return reply(refusal(entry.why()));
  registry_->put(*std::move(entry), *version, request.asked_by(),
                 [this, warnings, reply](const status &s) { finish(s, {{"ok", true}}, warnings, reply); });
}

void key_api::replace(const admin_request &request, const reply_fn &reply) {
  if (absent(reply)) return;
  const auto body = object_of(request.body);
  if (!body) return reply(refusal(body.why()));
  const auto version = version_of(*body);
  if (!version) return reply(refusal(version.why()));
  const json::value *keys = body->if_contains("keys");
  if (keys == nullptr || !keys->is_array()) return reply(refusal(fail(errc::invalid, "keys is required, as a list; an empty one deletes every key")));
  std::vector<std::string> warnings;
  std::vector<tenancy::key_entry> entries;
  for (const json::value &each : keys->get_array()) {
    const std::string path = "key[" + std::to_string(entries.size()) + "]";
    auto entry = tenancy::read_key_entry(config::yaml::from_json(each, path), {}, {strict_, unix_ms()}, warnings);
    if (!entry) return reply(refusal(entry.why()));
    if (warnings.size() > most_warnings) warnings.resize(most_warnings);
    entries.push_back(*std::move(entry));
  }
  const size_t count = entries.size();
  registry_->replace(std::move(entries), *version, request.asked_by(),
                     [this, count, warnings, reply](const status &s) { finish(s, {{"ok", true}, {"count", count}}, warnings, reply); });
}

void key_api::finish(const status &s, json::object good, const std::vector<std::string> &warnings, const reply_fn &reply) const {
  if (s.code() == errc::conflict) return reply(answer_of(409, {{"error", s.text()}, {"current_version", registry_->now().version}}));
  if (!s) return reply(refusal(s));
  for (const std::string &w : warnings) observe::log("auth").warn("client keys: {}", w);
  if (!warnings.empty()) good["warnings"] = json::value_from(warnings);
  reply(answer_of(200, good));
}

}  // namespace hive::admin
