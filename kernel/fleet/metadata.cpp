#include "fleet/metadata.hpp"

#include <algorithm>
#include <boost/json.hpp>

namespace hive::fleet {
namespace {

namespace json = boost::json;

status wrong(std::string_view field, std::string why) {
  return fail(errc::invalid, std::move(why), "metadata." + std::string(field));
}

status check_text(std::string_view field, std::string_view text, size_t limit) {
  if (text.size() > limit) {
    return wrong(field, std::to_string(text.size()) + " bytes are too long, at most " + std::to_string(limit) + " are allowed");
  }
  const bool bad = std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  return bad && field != "llm_info" ? wrong(field, "control characters are not allowed") : status();
}

// Absent and null leave `out` as it is.
status read_text(const json::object &from, std::string_view field, std::string &out, bool required,
                 size_t limit = metadata_limits::text_bytes) {
  const json::value *v = from.if_contains(field);
  if (v != nullptr && !v->is_null()) {
    if (!v->is_string()) return wrong(field, "must be text");
    out.assign(v->get_string().data(), v->get_string().size());
  }
  if (required && out.empty()) return wrong(field, "is missing or empty; every agent must name its " + std::string(field));
  return check_text(field, out, limit);
}

status read_texts(const json::object &from, std::string_view field, std::vector<std::string> &out, size_t limit) {
  const json::value *v = from.if_contains(field);
  if (v == nullptr || v->is_null()) return {};
  if (!v->is_array()) return wrong(field, "must be a list of texts");
  if (v->get_array().size() > limit) {
    return wrong(field, std::to_string(v->get_array().size()) + " entries are too many, at most " + std::to_string(limit) +
                            " are allowed");
  }
  for (const json::value &item : v->get_array()) {
    if (!item.is_string() || item.get_string().empty()) return wrong(field, "must be a list of texts that are not empty");
    std::string text(item.get_string().data(), item.get_string().size());
    if (status s = check_text(field, text, metadata_limits::text_bytes); !s) return s;
    if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(std::move(text));
  }
  return {};
}

status read_capacity(const json::object &from, uint32_t &out) {
  const json::value *v = from.if_contains("capacity");
  const std::string right = "must be a whole number from 1 to " + std::to_string(metadata_limits::capacity);
  if (v == nullptr || v->is_null()) return wrong("capacity", "is missing; " + right);
  boost::system::error_code error;
  const auto number = v->to_number<uint32_t>(error);
  if (error || number == 0 || number > metadata_limits::capacity) return wrong("capacity", json::serialize(*v).substr(0, 64) + " is wrong, it " + right);
  out = number;
  return {};
}

status read_models(const json::object &from, std::vector<std::string> &out) {
  std::string first;
  if (status s = read_text(from, "model", first, false); !s) return s;
  if (!first.empty()) out.push_back(std::move(first));
  if (status s = read_texts(from, "models", out, metadata_limits::models); !s) return s;
  if (out.empty()) return wrong("model", "is missing or empty; an agent must serve at least one model");
  return {};
}

status read_capability(const json::object &from, std::string &out) {
  if (status s = read_text(from, "capability", out, false); !s) return s;
  if (out.empty()) out = "llm";
  if (out == "llm" || out == "embedding" || out == "reranker") return {};
  return wrong("capability", "'" + out + "' is unknown; llm, embedding or reranker is right");
}

}  // namespace

result<agent_info> parse_metadata(std::string_view peer_id, std::string_view text) {
  if (text.size() > metadata_limits::json_bytes) {
    return fail(errc::invalid, std::to_string(text.size()) + " bytes are too many, at most " +
                                   std::to_string(metadata_limits::json_bytes) + " are allowed", "metadata");
  }
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = 16;
  const json::value root = json::parse(json::string_view(text.data(), text.size()), error, {}, options);
  if (error || !root.is_object()) return fail(errc::invalid, "must be one JSON object", "metadata");
  const json::object &from = root.get_object();

  agent_info info;
  info.peer_id = peer_id;
  info.agent_key = key_of(peer_id);
  if (status s = read_models(from, info.models); !s) return s;
  if (status s = read_capacity(from, info.capacity); !s) return s;
  if (status s = read_capability(from, info.capability); !s) return s;
  struct text_field {
    const char *name;
    std::string agent_info::*member;
    bool required;
  };
  static constexpr text_field fields[] = {{"version", &agent_info::version, true},
                                          {"engine", &agent_info::engine, true},
                                          {"region", &agent_info::region, true},
                                          {"organization", &agent_info::organization, true},
                                          {"machine", &agent_info::machine, false},
                                          {"gpu_model", &agent_info::gpu_model, false},
                                          {"deployment_id", &agent_info::deployment_id, false},
                                          {"replica_id", &agent_info::replica_id, false},
                                          {"llm_pretty_name", &agent_info::llm_pretty_name, false}};
  for (const text_field &f : fields) {
    if (status s = read_text(from, f.name, info.*f.member, f.required); !s) return s;
  }
  if (status s = read_text(from, "llm_info", info.llm_info, false, metadata_limits::info_bytes); !s) return s;
  if (status s = read_texts(from, "tags", info.tags, metadata_limits::tags); !s) return s;
  if (const json::value *hide = from.if_contains("hide_llm"); hide != nullptr && !hide->is_null()) {
    if (!hide->is_bool()) return wrong("hide_llm", "must be true or false");
    info.hide_llm = hide->get_bool();
  }
  return info;
}

}  // namespace hive::fleet
