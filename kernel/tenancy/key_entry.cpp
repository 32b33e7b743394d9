#include "tenancy/key_entry.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>

#include "base/text.hpp"
#include "config/yaml.hpp"
#include "tenancy/auth_file.hpp"

namespace hive::tenancy {

namespace json = boost::json;

namespace {

json::object quota_json(const client_key &key) {
  json::object out;
  if (!key.per_model_quota) {
    out["requests_per_minute"] = key.requests_per_minute;
    out["tokens_per_day"] = key.tokens_per_day;
    out["input_tokens_per_minute"] = key.input_tokens_per_minute;
    out["output_tokens_per_minute"] = key.output_tokens_per_minute;
    return out;
  }
  json::object &models = out["per_model"].emplace_object();
  for (const model_quota &each : key.per_model)
    models[each.model] = json::object{{"requests_per_minute_per_replica", each.requests_per_minute_per_replica},
                                      {"tokens_per_day", each.tokens_per_day}};
  return out;
}

}  // namespace

json::object to_json(const key_entry &entry) {
  const client_key &key = entry.key;
  json::object out{{"id", key.id}, {"key_hash", ""}, {"key_preview", key.preview}, {"owner", key.tenant}, {"name", key.name}, {"enabled", key.enabled}};
  if (key.expires_unix_ms != never_expires) out["expires_at"] = rfc3339_ms(key.expires_unix_ms);
  out["allowed_models"] = json::value_from(entry.allowed_models);
  out["quota"] = quota_json(key);
  out["max_occupancy_share"] = key.max_occupancy_share;
  out["max_parallel_requests"] = key.max_parallel_requests;
  out["max_parallel_requests_per_model"] = key.max_parallel_requests_per_model;
  out["when_parallel_full"] = key.parallel_waits ? "wait" : "reject";
  out["priority"] = key.priority;
  return out;
}

std::string encode(const key_entry &entry) {
  json::object out = to_json(entry);
  out["key_hash"] = to_hex(entry.key.hash);
  return json::serialize(out);
}

std::optional<key_entry> decode_key_entry(std::string_view id, std::string_view value) {
  boost::system::error_code error;
  const json::value written = json::parse(json::string_view(value.data(), value.size()), error);
  if (error) return std::nullopt;
  std::vector<std::string> warnings;
  auto entry = read_key_entry(config::yaml::from_json(written, {}), std::string(id), {}, warnings);
  if (!entry) return std::nullopt;
  return *std::move(entry);
}

}  // namespace hive::tenancy
