#include "settings.hpp"

#include <charconv>

namespace hive::transport_zmq {

std::string_view settings_schema() {
  return R"({"type":"object","additionalProperties":false,"properties":{
"max_connections_per_ip":{"type":"integer","minimum":1,"maximum":65536,"default":32},
"max_strangers":{"type":"integer","minimum":1,"maximum":65536,"default":256},
"limit_loopback":{"type":"boolean","default":false},
"io_threads":{"type":"integer","minimum":0,"maximum":64,"default":0},
"connect_timeout_ms":{"type":"integer","minimum":50,"maximum":60000,"default":3000},
"handshake_timeout_ms":{"type":"integer","minimum":50,"maximum":60000,"default":3000},
"heartbeat_ms":{"type":"integer","minimum":50,"maximum":60000,"default":1000},
"heartbeat_timeout_ms":{"type":"integer","minimum":100,"maximum":60000,"default":3000},
"hwm":{"type":"integer","minimum":1,"maximum":1000000,"default":65536}}})";
}

namespace {

// The text after `"name":`, or empty. Enough for a flat object that has passed its schema.
std::string_view member(std::string_view json, std::string_view name) {
  const std::string quoted = '"' + std::string(name) + '"';
  const size_t at = json.find(quoted);
  if (at == std::string_view::npos) return {};
  const size_t value = json.find_first_not_of(" \t\r\n:", at + quoted.size());
  return value == std::string_view::npos ? std::string_view() : json.substr(value);
}

std::string read(std::string_view json, std::string_view name, int low, int high, int &out) {
  const std::string_view text = member(json, name);
  if (text.empty()) return {};
  int value = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  if (r.ec != std::errc() || value < low || value > high)
    return std::string(name) + " must be a whole number from " + std::to_string(low) + " to " + std::to_string(high);
  out = value;
  return {};
}

}  // namespace

std::string read_settings(std::string_view json, settings &out) {
  const struct {
    std::string_view name;
    int low, high;
    int &value;
  } numbers[] = {
      {"max_connections_per_ip", 1, 65536, out.max_connections_per_ip},
      {"max_strangers", 1, 65536, out.max_strangers},
      {"io_threads", 0, 64, out.io_threads},
      {"connect_timeout_ms", 50, 60000, out.connect_timeout_ms},
      {"handshake_timeout_ms", 50, 60000, out.handshake_timeout_ms},
      {"heartbeat_ms", 50, 60000, out.heartbeat_ms},
      {"heartbeat_timeout_ms", 100, 60000, out.heartbeat_timeout_ms},
      {"hwm", 1, 1000000, out.hwm},
  };
  for (const auto &n : numbers)
    if (std::string why = read(json, n.name, n.low, n.high, n.value); !why.empty()) return why;
  if (const std::string_view text = member(json, "limit_loopback"); !text.empty()) out.limit_loopback = text.starts_with("true");
  if (out.heartbeat_timeout_ms < out.heartbeat_ms)
    return "heartbeat_timeout_ms (" + std::to_string(out.heartbeat_timeout_ms) + ") must not be below heartbeat_ms (" +
           std::to_string(out.heartbeat_ms) + "): every connection would be cut between two heartbeats";
  return {};
}

}  // namespace hive::transport_zmq
