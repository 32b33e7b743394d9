#include "link/messages.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "base/text.hpp"

namespace hive::link {
namespace {

namespace json = boost::json;

std::string hex_of(const key32 &k) { return to_hex(k); }

std::string hex_of(uint64_t v) {
  uint8_t bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(v >> (8 * i));
  return to_hex(bytes);
}

// Reads the fields of one object; the first that is missing or of another kind makes all of it bad.
class fields {
 public:
  explicit fields(std::string_view text) {
    json::error_code error;
    json::parse_options options;
    options.max_depth = 6;
    value_ = json::parse(json::string_view(text.data(), text.size()), error, {}, options);
    ok_ = !error && value_.is_object();
  }
  bool ok() const { return ok_; }
  const json::value *get(const char *key) {
    const json::value *v = ok_ ? value_.get_object().if_contains(key) : nullptr;
    if (!v) ok_ = false;
    return v;
  }
  uint64_t number(const char *key, uint64_t limit) {
    const json::value *v = get(key);
    if (!v) return 0;
    json::error_code error;
    const auto n = v->to_number<uint64_t>(error);
    if (error || n > limit) ok_ = false;
    return ok_ ? n : 0;
  }
  bool boolean(const char *key) {
    const json::value *v = get(key);
    if (v && v->is_bool()) return v->get_bool();
    ok_ = false;
    return false;
  }
  std::string text(const char *key, size_t limit) {
    const json::value *v = get(key);
    if (v && v->is_string() && v->get_string().size() <= limit) return std::string(v->get_string());
    ok_ = false;
    return {};
  }
  key32 key(const char *name) {
    key32 out{};
    const auto bytes = from_hex(text(name, 64));
    if (bytes && bytes->size() == out.size()) std::copy(bytes->begin(), bytes->end(), out.begin());
    else ok_ = false;
    return out;
  }
  uint64_t id(const char *name) {
    uint64_t out = 0;
    const auto bytes = from_hex(text(name, 16));
    if (!bytes || bytes->size() != 8) ok_ = false;
    else for (int i = 0; i < 8; ++i) out |= static_cast<uint64_t>((*bytes)[static_cast<size_t>(i)]) << (8 * i);
    return out;
  }
  const json::array *list(const char *key, size_t limit) {
    const json::value *v = get(key);
    if (v && v->is_array() && v->get_array().size() <= limit) return &v->get_array();
    ok_ = false;
    return nullptr;
  }
  void bad() { ok_ = false; }

 private:
  json::value value_;
  bool ok_ = false;
};

template <class T>
std::optional<T> checked(const fields &f, T value) {
  if (!f.ok()) return std::nullopt;
  return value;
}

}  // namespace

std::string to_json(const hello_message &m) {
  return json::serialize(json::object{{"min", m.version_min}, {"max", m.version_max}, {"boot", hex_of(m.boot_id)},
                                      {"peer", m.peer_id}, {"nonce", hex_of(m.nonce)}, {"link", m.link_index}});
}

std::string to_json(const challenge_message &m) {
  return json::serialize(json::object{{"version", m.version}, {"nonce", hex_of(m.nonce)}, {"echo", hex_of(m.echo)},
                                      {"boot", hex_of(m.boot_id)}});
}

std::string to_json(const auth_message &m) {
  return json::serialize(json::object{{"proof", hex_of(m.proof)}, {"window", m.stream_window}});
}

std::string to_json(const welcome_message &m) {
  json::array endpoints;
  for (const auto &e : m.endpoints) endpoints.emplace_back(e);
  return json::serialize(json::object{{"proof", hex_of(m.proof)}, {"epoch", m.epoch}, {"ttl_ms", m.ttl_ms},
                                      {"heartbeat_ms", m.heartbeat_ms}, {"ping_ms", m.ping_ms}, {"body_window", m.body_window},
                                      {"link_window", m.link_window},
                                      {"slot_release", m.slot_release_at_head ? "headers" : "stream_end"},
                                      {"endpoints", std::move(endpoints)}});
}

std::string to_json(const kick_message &m) {
  return json::serialize(json::object{{"code", m.code}, {"message", m.message}, {"retry_after_ms", m.retry_after_ms},
                                      {"final", m.final}});
}

std::string to_json(const heartbeat_message &m) {
  return json::serialize(json::object{{"ready", m.engine_ready}, {"reason", m.reason}});
}

std::string to_json(const pong_info &m) {
  return json::serialize(json::object{{"in_flight_total", m.in_flight_total}, {"in_flight_yours", m.in_flight_yours},
                                      {"capacity", m.capacity}});
}

std::string to_json(const std::vector<signal_value> &values) {
  json::array list;
  for (const auto &v : values)
    if (std::isfinite(v.value)) list.push_back(json::array{json::string_view(v.name.data(), v.name.size()), v.value, v.age_ms});
  return json::serialize(json::object{{"values", std::move(list)}});
}

std::optional<hello_message> parse_hello(std::string_view text) {
  fields f(text);
  hello_message m;
  m.version_min = static_cast<uint32_t>(f.number("min", 0xffff));
  m.version_max = static_cast<uint32_t>(f.number("max", 0xffff));
  m.boot_id = f.id("boot");
  m.peer_id = f.text("peer", 64);
  m.nonce = f.key("nonce");
  m.link_index = static_cast<uint32_t>(f.number("link", 255));
  return checked(f, std::move(m));
}

std::optional<challenge_message> parse_challenge(std::string_view text) {
  fields f(text);
  challenge_message m;
  m.version = static_cast<uint32_t>(f.number("version", 0xffff));
  m.nonce = f.key("nonce");
  m.echo = f.key("echo");
  m.boot_id = f.id("boot");
  return checked(f, m);
}

std::optional<auth_message> parse_auth(std::string_view text) {
  fields f(text);
  auth_message m;
  m.proof = f.key("proof");
  m.stream_window = static_cast<uint32_t>(f.number("window", UINT32_MAX));
  return checked(f, m);
}

std::optional<welcome_message> parse_welcome(std::string_view text) {
  fields f(text);
  welcome_message m;
  m.proof = f.key("proof");
  m.epoch = static_cast<uint16_t>(f.number("epoch", 0xffff));
  m.ttl_ms = f.number("ttl_ms", uint64_t{1} << 40);
  m.heartbeat_ms = f.number("heartbeat_ms", 3'600'000);
  m.ping_ms = f.number("ping_ms", 3'600'000);
  m.body_window = static_cast<uint32_t>(f.number("body_window", 64u << 20));
  m.link_window = static_cast<uint32_t>(f.number("link_window", 64u << 20));
  m.slot_release_at_head = f.text("slot_release", 16) == "headers";
  if (m.heartbeat_ms == 0 || m.ping_ms == 0 || m.body_window == 0 || m.link_window == 0) f.bad();
  if (const auto *list = f.list("endpoints", 256)) {
    for (const auto &e : *list) {
      if (e.is_string() && e.get_string().size() <= 512) m.endpoints.emplace_back(e.get_string());
      else f.bad();
    }
  }
  return checked(f, std::move(m));
}

std::optional<kick_message> parse_kick(std::string_view text) {
  fields f(text);
  kick_message m;
  m.code = f.text("code", 64);
  m.message = f.text("message", 4096);
  m.retry_after_ms = f.number("retry_after_ms", 3'600'000);
  m.final = f.boolean("final");
  return checked(f, std::move(m));
}

std::optional<heartbeat_message> parse_heartbeat(std::string_view text) {
  fields f(text);
  heartbeat_message m;
  m.engine_ready = f.boolean("ready");
  m.reason = f.text("reason", 4096);
  return checked(f, std::move(m));
}

std::optional<pong_info> parse_pong(std::string_view text) {
  fields f(text);
  pong_info m;
  m.in_flight_total = static_cast<uint32_t>(f.number("in_flight_total", UINT32_MAX));
  m.in_flight_yours = static_cast<uint32_t>(f.number("in_flight_yours", UINT32_MAX));
  m.capacity = static_cast<uint32_t>(f.number("capacity", UINT32_MAX));
  return checked(f, m);
}

std::optional<signals_message> parse_signals(std::string_view text) {
  fields f(text);
  signals_message m;
  if (const auto *list = f.list("values", 1024)) {
    m.values.reserve(list->size());
    for (const auto &e : *list) {
      if (!e.is_array() || e.get_array().size() != 3) return std::nullopt;
      const auto &a = e.get_array();
      json::error_code bad_value, bad_age;
      const auto value = a[1].to_number<double>(bad_value);
      const auto age = a[2].to_number<uint64_t>(bad_age);
      if (!a[0].is_string() || a[0].get_string().size() > 128 || bad_value || bad_age || !std::isfinite(value)) return std::nullopt;
      m.values.push_back({std::string(a[0].get_string()), value, age});
    }
  }
  return checked(f, std::move(m));
}

}  // namespace hive::link
