#include "http/head.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <cstring>

#include "base/text.hpp"

namespace hive::http {

namespace {

namespace beast = boost::beast;

constexpr size_t usual_fields = 12;  // of an engine's answer

// Collects what Beast found; the views point into the one buffer that put() was given.
template <bool is_request>
class collector final : public beast::http::basic_parser<is_request> {
 public:
  explicit collector(std::vector<field> &fields) : fields_(fields) {}
  std::string_view method, target;
  int version = 11;
  int status = 0;
  bool too_many = false;

 private:
  using error_code = beast::error_code;
  using view = beast::string_view;
  static std::string_view as_std(view v) { return {v.data(), v.size()}; }

  void on_request_impl(beast::http::verb, view method_text, view target_text, int v, error_code &) override {
    method = as_std(method_text);
    target = as_std(target_text);
    version = v;
  }
  void on_response_impl(int code, view, int v, error_code &) override {
    status = code;
    version = v;
  }
  void on_field_impl(beast::http::field, view name, view value, error_code &e) override {
    if (fields_.size() >= max_fields) {
      too_many = true;
      e = beast::http::error::header_limit;
      return;
    }
    fields_.push_back({as_std(name), as_std(value)});
  }
  void on_header_impl(error_code &) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t> &, error_code &) override {}
  std::size_t on_body_impl(view, error_code &) override { return 0; }
  void on_chunk_header_impl(std::uint64_t, view, error_code &) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, view, error_code &) override { return 0; }
  void on_finish_impl(error_code &) override {}

  std::vector<field> &fields_;
};

bool has_folded_line(std::string_view head) {
  for (size_t at = head.find('\n'); at != std::string_view::npos && at + 1 < head.size(); at = head.find('\n', at + 1)) {
    if (head[at + 1] == ' ' || head[at + 1] == '\t') return true;
  }
  return false;
}

bool has_token(std::string_view list, std::string_view token) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (iequals(trim(list.substr(0, comma)), token)) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

std::optional<uint64_t> parse_length(std::string_view text) {
  if (text.empty() || text.size() > 18) return std::nullopt;
  uint64_t n = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    n = n * 10 + static_cast<uint64_t>(c - '0');
  }
  return n;
}

// "METHOD TARGET HTTP/d.d": well formed, only not a version of ours.
bool names_another_version(std::string_view head) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  const size_t last = line.rfind(' ');
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return last != std::string_view::npos && std::count(line.begin(), line.end(), ' ') == 2 && line.size() == last + 9 &&
         line.substr(last + 1, 5) == "HTTP/" && digit(line[last + 6]) && line[last + 7] == '.' && digit(line[last + 8]) &&
         line.substr(last + 6) != "1.0" && line.substr(last + 6) != "1.1";
}

head_refusal refuse(std::string what, int status = 400) { return {status, std::move(what)}; }

// What decides where the message ends; every ambiguity is refused, in both directions.
struct framing_facts {
  size_t lengths = 0, codings = 0, hosts = 0;
  std::optional<uint64_t> length;
  bool chunked = false;
  bool close = false, keep = false;
  std::string_view expect;

  std::optional<head_refusal> read(const std::vector<field> &fields, int version) {
    for (const field &f : fields) {
      switch (f.name.size()) {
        case 4:
          if (iequals(f.name, "host")) ++hosts;
          break;
        case 6:
          if (iequals(f.name, "expect")) expect = f.value;
          break;
        case 10:
          if (iequals(f.name, "connection")) {
            close = close || has_token(f.value, "close");
            keep = keep || has_token(f.value, "keep-alive");
          }
          break;
        case 14:
          if (!iequals(f.name, "content-length")) break;
          ++lengths;
          length = parse_length(f.value);
          if (!length) return refuse("Content-Length must be one decimal number");
          break;
        case 17:
          if (!iequals(f.name, "transfer-encoding")) break;
          ++codings;
          chunked = iequals(f.value, "chunked");
          if (!chunked) return refuse("Transfer-Encoding must be exactly \"chunked\"");
          break;
        default: break;
      }
    }
    if (lengths > 1) return refuse("more than one Content-Length");
    if (codings > 1) return refuse("more than one Transfer-Encoding");
    if (codings > 0 && lengths > 0) return refuse("both Transfer-Encoding and Content-Length");
    if (codings > 0 && version < 11) return refuse("Transfer-Encoding needs HTTP/1.1");
    return std::nullopt;
  }
  bool persistent(int version) const { return !close && (version >= 11 || keep); }
};

bool hop_by_hop(std::string_view name) {
  switch (name.size()) {
    case 2: return iequals(name, "te");
    case 4: return iequals(name, "date");
    case 7: return iequals(name, "trailer") || iequals(name, "upgrade");
    case 10: return iequals(name, "connection") || iequals(name, "keep-alive");
    case 14: return iequals(name, "content-length");
    case 16: return iequals(name, "proxy-connection");
    case 17: return iequals(name, "transfer-encoding");
    default: return false;
  }
}

template <bool is_request>
std::optional<head_refusal> run_beast(collector<is_request> &parser, std::string_view head) {
  parser.header_limit(static_cast<std::uint32_t>(head.size() + 1));
  parser.body_limit(boost::none);
  parser.eager(false);
  beast::error_code error;
  parser.put(boost::asio::buffer(head.data(), head.size()), error);
  if (parser.too_many) return refuse("more than " + std::to_string(max_fields) + " header fields", 431);
  if (error == beast::http::error::bad_version && names_another_version(head)) return refuse("only HTTP/1.0 and HTTP/1.1 are spoken here", 505);
  if (error) return refuse("the message head is not valid HTTP/1.1 (" + error.message() + ")");
  if (!parser.is_header_done()) return refuse("the message head is not valid HTTP/1.1");
  return std::nullopt;
}

}  // namespace

size_t find_head_end(std::string_view bytes, size_t &from) {
  const size_t at = bytes.find("\r\n\r\n", from > 3 ? from - 3 : 0);
  if (at != std::string_view::npos) return at + 4;
  from = bytes.size();
  return 0;
}

std::optional<head_refusal> request_head_parser::parse(std::string_view head) {
  bytes_.assign(head);
  fields_.clear();
  head_ = {};
  if (has_folded_line(bytes_)) return refuse("a header field is folded over several lines");
  if (std::memchr(bytes_.data(), '\0', bytes_.size()) != nullptr) return refuse("the head holds a NUL byte");
  collector<true> parser(fields_);
  if (auto refusal = run_beast(parser, bytes_)) return refusal;
  framing_facts facts;
  if (auto refusal = facts.read(fields_, parser.version)) return refusal;
  if (parser.version >= 11 && facts.hosts != 1) return refuse("an HTTP/1.1 request needs exactly one Host");
  if (facts.hosts > 1) return refuse("more than one Host");
  const std::string_view target = parser.target;
  if (target == "*" ? parser.method != "OPTIONS" : target.empty() || target.front() != '/') {
    return refuse("the request target must be a path that starts with \"/\"");
  }
  for (unsigned char c : target) {
    if (c <= 0x20 || c == 0x7f) return refuse("the request target holds a control character");
  }
  if (target.find('#') != std::string_view::npos) return refuse("the request target holds a fragment");
  head_.expect_continue = parser.version >= 11 && iequals(facts.expect, "100-continue");
  if (parser.version >= 11 && !facts.expect.empty() && !head_.expect_continue) {
    return refuse("only Expect: 100-continue is understood", 417);
  }
  head_.method = parser.method;
  head_.target = target;
  const size_t question = target.find('?');
  head_.path = target.substr(0, question);
  head_.query = question == std::string_view::npos ? std::string_view() : target.substr(question + 1);
  head_.version = parser.version;
  head_.keep_alive = facts.persistent(parser.version);
  head_.chunked = facts.chunked;
  head_.content_length = facts.length;
  head_.fields = fields_;
  return std::nullopt;
}

void request_head_parser::release(size_t keep_bytes) {
  if (bytes_.capacity() <= keep_bytes && fields_.capacity() * sizeof(field) <= keep_bytes) return;
  bytes_ = {};
  fields_ = {};
  head_ = {};
}

std::optional<head_refusal> answer_head_parser::parse(std::string_view head) {
  bytes_.assign(head);
  std::vector<field> kept = std::move(head_.fields);
  kept.clear();
  head_ = {};
  head_.fields = std::move(kept);
  if (has_folded_line(bytes_)) return refuse("a header field is folded over several lines");
  if (std::memchr(bytes_.data(), '\0', bytes_.size()) != nullptr) return refuse("the head holds a NUL byte");
  head_.fields.reserve(usual_fields);
  collector<false> parser(head_.fields);
  if (auto refusal = run_beast(parser, bytes_)) return refusal;
  framing_facts facts;
  if (auto refusal = facts.read(head_.fields, parser.version)) return refusal;
  if (parser.status < 100 || parser.status > 599) return refuse("the status code is outside 100..599");
  head_.status = parser.status;
  head_.version = parser.version;
  head_.keep_alive = facts.persistent(parser.version);
  head_.chunked = facts.chunked;
  head_.content_length = facts.length;
  if (const field *date = find_field(head_.fields, "date")) head_.date = date->value;
  // What Connection names belongs to that connection as much as Connection itself (RFC 9110 section 7.6.1).
  std::vector<std::string_view> named;
  for (const field &f : head_.fields)
    if (iequals(f.name, "connection")) named.push_back(f.value);
  std::erase_if(head_.fields, [&](const field &f) {
    return hop_by_hop(f.name) ||
           std::any_of(named.begin(), named.end(), [&](std::string_view list) { return has_token(list, f.name); });
  });
  return std::nullopt;
}

}  // namespace hive::http
