// Reads the error an engine answered: the five shapes of bodies, Retry-After, and the rules that hold for every engine.
// An adapter asks `error_of`, judges what only it can know, and leaves the rest to `classify_common`. [pure]
//
// Shapes: {"error":{message,type,param,code}}, {"type":"error","error":{type,message}}, {"detail":"..."},
// {"detail":[{"msg":...}]}, flat {"object":"error",message,type,code}, {"error":"..."}.
// Needs simdjson: an engine's body is foreign text, so a full parser reads it.
#pragma once

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "hive/sdk/engine.hpp"

namespace hive::sdk {

inline constexpr std::size_t max_message_bytes = 512;

// Borrowed from `text`, which lives in the thread's own buffer until the next call of error_of on that thread.
struct engine_error {
  bool is_error = false;      // the body says so itself, whatever the status
  std::string_view type;      // error.type, or type
  std::string_view code;      // error.code when it is text
  std::int64_t status = 0;    // error.code when it is a number
  std::string_view message;   // at most 512 bytes of valid UTF-8, never empty
};

namespace detail {

inline std::string lower(std::string_view s) {
  std::string out(s);
  for (char &c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// The length of the UTF-8 character at the start of s, 0 when there is none (overlong and surrogate forms pass as text).
inline std::size_t utf8_length(std::string_view s) {
  const auto c = static_cast<unsigned char>(s[0]);
  const std::size_t n = c < 0x80 ? 1 : c >= 0xC2 && c < 0xE0 ? 2 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xF0 && c < 0xF5 ? 4 : 0;
  if (n == 0 || n > s.size()) return 0;
  for (std::size_t i = 1; i < n; ++i)
    if ((static_cast<unsigned char>(s[i]) & 0xC0) != 0x80) return 0;
  return n;
}

// Fixed memory without a destructor: a plugin may not leave thread-local destructors behind.
struct error_buffer {
  char message[max_message_bytes];
  char type[64];
  char code[64];
};
inline error_buffer &thread_error_buffer() {
  static thread_local error_buffer buffer;
  return buffer;
}

// Copies whole characters as far as they fit; bytes that are no UTF-8 become '?'.
inline std::string_view keep(std::string_view s, char *to, std::size_t room) {
  std::size_t used = 0;
  while (!s.empty()) {
    const std::size_t n = utf8_length(s);
    if (used + std::max<std::size_t>(n, 1) > room) break;
    if (n == 0) {
      to[used++] = '?';
      s.remove_prefix(1);
      continue;
    }
    std::copy_n(s.data(), n, to + used);
    used += n;
    s.remove_prefix(n);
  }
  return {to, used};
}

// What is left to say of an answer without words of its own.
inline std::string_view status_message(std::uint32_t status, std::span<char> to) {
  static constexpr std::string_view before = "the engine answered ";
  const std::string_view after = status >= 300 && status < 400   ? ", a redirect, and redirects are not followed"
                                 : status >= 201 && status < 300 ? ", where only 200 is an answer"
                                                                 : " without a message";
  char *at = std::copy(before.begin(), before.end(), to.data());
  at = std::to_chars(at, to.data() + to.size(), status).ptr;
  at = std::copy(after.begin(), after.end(), at);
  return {to.data(), static_cast<std::size_t>(at - to.data())};
}

inline std::string_view text_at(simdjson::dom::object o, std::string_view name) {
  std::string_view out;
  return o.at_key(name).get(out) ? std::string_view() : out;
}

inline std::string_view trimmed(std::string_view s) {
  const auto first = s.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos ? std::string_view() : s.substr(first, s.find_last_not_of(" \t\r\n") - first + 1);
}

}  // namespace detail

inline engine_error error_of(std::uint32_t status, std::string_view body) {
  auto &own = detail::thread_error_buffer();
  engine_error out;
  simdjson::dom::parser parser;
  simdjson::dom::object root, inner;
  simdjson::dom::array details;
  std::string_view message, type, code;
  const simdjson::padded_string padded(body);
  const bool json = !parser.parse(padded).get(root);
  if (json) {
    simdjson::dom::object at = root;
    if (!root["error"].get(inner)) {
      out.is_error = true;
      at = inner;
    } else if (!root["error"].get(message)) {
      out.is_error = !message.empty();
    }
    if (message.empty()) message = detail::text_at(at, "message");
    type = detail::text_at(at, "type");
    code = detail::text_at(at, "code");
    if (at["code"].get(out.status)) out.status = 0;
    if (detail::text_at(root, "object") == "error") out.is_error = true;
    if (message.empty()) message = detail::text_at(root, "message");
    if (message.empty()) message = detail::text_at(root, "detail");
    if (message.empty() && !root["detail"].get(details))
      for (const simdjson::dom::element each : details)
        if (simdjson::dom::object o; message.empty() && !each.get(o)) message = detail::text_at(o, "msg");
  }
  if (message.empty() && !(json && status == 200)) message = detail::trimmed(body);
  out.message = detail::keep(message, own.message, sizeof own.message);
  out.type = detail::keep(type, own.type, sizeof own.type);
  out.code = detail::keep(code, own.code, sizeof own.code);
  // The body of a redirect or of an unwanted success is no error text.
  if (out.message.empty() || (status > 200 && status < 400)) out.message = detail::status_message(status, own.message);
  return out;
}

namespace detail {

inline std::optional<std::int64_t> unix_seconds(int year, unsigned month, unsigned day, std::int64_t h, std::int64_t m, std::int64_t s) {
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  if (!date.ok() || h > 23 || m > 59 || s > 60) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count() * std::int64_t{86400} + h * 3600 + m * 60 + s;
}

// RFC 9110 5.6.7: "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994".
inline std::optional<std::int64_t> http_date(std::string_view s) {
  std::vector<std::string_view> parts;
  while (!s.empty()) {
    const auto from = s.find_first_not_of(" ,-:");
    if (from == std::string_view::npos) break;
    const auto to = std::min(s.find_first_of(" ,-:", from), s.size());
    parts.push_back(s.substr(from, to - from));
    s.remove_prefix(to);
  }
  if (parts.size() < 7) return std::nullopt;
  const bool asctime = parts[1].size() == 3 && (parts[1][0] < '0' || parts[1][0] > '9');
  if (asctime) parts = {parts[0], parts[2], parts[1], parts[6], parts[3], parts[4], parts[5]};
  const auto number = [](std::string_view text) {
    int v = -1;
    const auto r = std::from_chars(text.data(), text.data() + text.size(), v);
    return r.ec == std::errc() && r.ptr == text.data() + text.size() ? v : -1;
  };
  static constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const auto month = parts[2].size() == 3 ? months.find(parts[2]) : std::string_view::npos;
  int year = number(parts[3]);
  if (parts[3].size() == 2 && year >= 0) year += year < 70 ? 2000 : 1900;
  const int day = number(parts[1]), h = number(parts[4]), m = number(parts[5]), sec = number(parts[6]);
  if (month == std::string_view::npos || month % 3 != 0 || year < 0 || day < 0 || h < 0 || m < 0 || sec < 0) return std::nullopt;
  return unix_seconds(year, static_cast<unsigned>(month / 3 + 1), static_cast<unsigned>(day), h, m, sec);
}

inline std::string_view header(std::span<const hive_header> headers, std::string_view name) {
  for (const auto &h : headers)
    if (view(h.name) == name) return trimmed(view(h.value));
  return {};
}

}  // namespace detail

// Milliseconds to wait, 1 s to 60 s; 0 = not said. A codec has no clock, so a date counts from the answer's own Date.
inline std::uint64_t retry_after_ms(std::span<const hive_header> headers) {
  const std::string_view value = detail::header(headers, "retry-after");
  if (value.empty()) return 0;
  double seconds = 0;
  const auto r = std::from_chars(value.data(), value.data() + value.size(), seconds, std::chars_format::fixed);
  if (r.ptr != value.data() + value.size() || (r.ec != std::errc() && r.ec != std::errc::result_out_of_range)) {
    const auto until = detail::http_date(value), from = detail::http_date(detail::header(headers, "date"));
    if (!until || !from) return 0;
    seconds = static_cast<double>(*until - *from);
  } else if (r.ec == std::errc::result_out_of_range) {
    seconds = 60;
  }
  if (!(seconds >= 0)) seconds = 1;  // a date in the past: now, and not sooner than a second
  return static_cast<std::uint64_t>(std::clamp(seconds, 1.0, 60.0) * 1000);
}

// The verdicts of docs/engines.md, Errors: what the body says of its type beats the status.
inline answer classify_common(std::uint32_t status, std::span<const hive_header> headers, std::string_view body, const engine_error &e) {
  answer out{HIVE_ANSWER_FAILED, 0, e.message};
  if (status == 200 && !e.is_error) {
    out.verdict = HIVE_ANSWER_OK;
    out.message = {};
    return out;
  }
  if (status == 200 && e.status >= 400 && e.status < 600) status = static_cast<std::uint32_t>(e.status);
  const auto any = [](std::string_view what, std::initializer_list<std::string_view> of) {
    return std::find(of.begin(), of.end(), what) != of.end();
  };
  const std::string words = detail::lower(body.substr(0, 64 << 10));
  const auto says = [&](std::string_view what) { return words.find(what) != std::string::npos; };
  if (any(e.type, {"context_length_exceeded", "exceed_context_size_error"}) || e.code == "context_length_exceeded")
    out.verdict = HIVE_ANSWER_CONTEXT;
  else if (any(e.type, {"invalid_request_error", "invalid_parameter"}) && e.code != "model_not_found" && status != 404)
    out.verdict = HIVE_ANSWER_CLIENT;
  else if (status == 503 && says("loading"))
    out.verdict = HIVE_ANSWER_STARTING;
  else if (status == 429 && any(e.type, {"BadRequestError", "Bad Request"}))
    out.verdict = HIVE_ANSWER_CLIENT;  // a limit on the request's shape, not on load
  else if (status == 429 || status == 503 || status == 529 || e.type == "overloaded_error")
    out.verdict = HIVE_ANSWER_OVERLOADED;
  else if (status == 404 && (e.code == "model_not_found" || (says("model") && (says("does not exist") || says("not found")))))
    out.verdict = HIVE_ANSWER_UNKNOWN_MODEL;
  else if (status == 400 && says("invalid model") && says("not found"))  // Infinity
    out.verdict = HIVE_ANSWER_UNKNOWN_MODEL;
  else if ((status == 400 || status == 422) && says("context") && (says("length") || says("window") || says("token")))
    out.verdict = HIVE_ANSWER_CONTEXT;
  else if (status == 501 || (status >= 400 && status < 500 && status != 408))
    out.verdict = HIVE_ANSWER_CLIENT;
  if (out.verdict == HIVE_ANSWER_OVERLOADED || out.verdict == HIVE_ANSWER_STARTING) out.retry_after_ms = retry_after_ms(headers);
  return out;
}

}  // namespace hive::sdk
