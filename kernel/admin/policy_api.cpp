#include "admin/policy_api.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value_from.hpp>

#include "admin/answers.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"

namespace hive::admin {

namespace json = boost::json;
using gateway::admin_answer;
using gateway::admin_request;
using routing::policy_document;

namespace {

constexpr size_t most_name_bytes = 256;

// A name becomes a key of the storage and stands in logs.
status good_name(const std::string &name) {
  if (name.empty()) return fail(errc::invalid, "the document's name is missing: /admin/policy/models/NAME");
  if (name.size() > most_name_bytes) return fail(errc::invalid, "the document's name is longer than " + std::to_string(most_name_bytes) + " bytes");
  for (size_t at = 0; at < name.size();) {
    const size_t length = utf8_sequence(std::string_view(name).substr(at));
    const auto c = static_cast<unsigned char>(name[at]);
    if (length == 0 || c < 0x20 || c == 0x7f) return fail(errc::invalid, "the document's name is no UTF-8 or holds a control character");
    at += length;
  }
  // Whoever typed a key here finds it in no log and no storage, and not in this answer either.
  if (trim(name).starts_with("sk-"))
    return fail(errc::invalid, "the document's name may not begin with sk-: it would look like a key, and names stand in logs");
  return {};
}

routing::policy_write write_of(const admin_request &r, const std::string &name) {
  return {name, r.body, r.if_match, r.asked_by()};
}

}  // namespace

void policy_api::show(const routing::held_policy *held, const reply_fn &reply) const {
  if (held == nullptr || !held->document) return reply(refusal(fail(errc::not_found, "no such policy document")));
  admin_answer a = answer_of(200, routing::to_json(*held->document));
  a.fields.emplace_back("ETag", routing::tag_of(*held->document));
  reply(std::move(a));
}

void policy_api::put(const admin_request &request, const std::string &name, const reply_fn &reply) {
  library_.put(write_of(request, name), [this, name, reply](const status &s) {
    if (!s) return reply(refusal(s));
    json::object body{{"status", "policy updated"}};
    const auto &now = library_.now();
    const policy_document &written = name.empty() ? *now.global.document : *now.named.at(name).document;
    if (!name.empty()) {
      body["name"] = name;
      body["models"] = json::value_from(written.models);
    }
    admin_answer a = answer_of(200, body);
    a.fields.emplace_back("ETag", routing::tag_of(written));
    reply(std::move(a));
  });
}

void policy_api::erase(const admin_request &request, const std::string &name, const reply_fn &reply) {
  routing::policy_write what = write_of(request, name);
  what.text.clear();
  library_.erase(std::move(what), [name, reply](const status &s) {
    if (!s) return reply(refusal(s));
    json::object body{{"status", "policy deleted"}};
    if (!name.empty()) body["name"] = name;
    reply(answer_of(200, body));
  });
}

void policy_api::global(const admin_request &request, const reply_fn &reply) {
  if (request.method == "PUT") return put(request, {}, reply);
  if (request.method == "DELETE") return erase(request, {}, reply);
  show(&library_.now().global, reply);
}

void policy_api::list(const reply_fn &reply) const {
  json::object all;
  for (const auto &[name, held] : library_.now().named)
    if (held.document) all[name] = routing::to_json(*held.document);
  reply(answer_of(200, all));
}

void policy_api::named(const admin_request &request, const std::string &name, const reply_fn &reply) {
  if (request.method != "PUT" && request.method != "DELETE") {
    const auto &all = library_.now().named;
    const auto found = all.find(name);
    return show(found == all.end() ? nullptr : &found->second, reply);
  }
  if (const status s = good_name(name); !s) return reply(refusal(s));
  if (request.method == "PUT") put(request, name, reply);
  else erase(request, name, reply);
}

}  // namespace hive::admin
