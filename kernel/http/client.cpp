#include "http/client.hpp"

#include <algorithm>
#include <charconv>

#include "base/host_text.hpp"
#include "base/text.hpp"
#include "http/client_call.hpp"

namespace hive::http {

namespace {
constexpr uint64_t least_idle_limit_ns = 200 * ns_per_ms;
constexpr uint16_t http_port = 80, https_port = 443;

std::string bracketed(const std::string &host) { return host.find(':') == std::string::npos ? host : "[" + host + "]"; }
}  // namespace

result<origin> parse_origin(std::string_view url, schemes allowed) {
  // What stands before an @ or in a query may be a password, and this is going to be printed.
  const std::string text = url.find_first_of("@?#") != std::string_view::npos ? "the URL" : "\"" + std::string(url) + "\"";
  const bool both = allowed == schemes::http_and_https;
  const auto wrong = [&](const char *why) {
    return fail(errc::invalid, text + ": " + why + "; expected http" + (both ? "[s]" : "") + "://HOST[:PORT][/BASE]");
  };
  const bool tls = iequals(url.substr(0, 8), "https://");
  if (tls && !both) return wrong("https is not supported");
  if (!tls && !iequals(url.substr(0, 7), "http://")) return wrong(both ? "it does not start with https:// or http://" : "it does not start with http://");
  for (unsigned char c : url) {
    if (c <= 0x20 || c == 0x7f) return wrong("it holds white space or a control character");
  }
  url.remove_prefix(tls ? 8 : 7);
  if (url.find_first_of("?#") != std::string_view::npos) return wrong("a base URL has no query and no fragment");
  origin out;
  out.tls = tls;
  if (tls) out.port = https_port;
  const size_t slash = url.find('/');
  std::string_view authority = url.substr(0, slash);
  if (slash != std::string_view::npos) out.base = url.substr(slash);
  while (!out.base.empty() && out.base.back() == '/') out.base.pop_back();
  if (authority.find('@') != std::string_view::npos) return wrong("credentials in a URL are not accepted");
  std::string_view port;
  if (!authority.empty() && authority.front() == '[') {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return wrong("the IPv6 address lacks its closing bracket");
    out.host = authority.substr(1, close - 1);
    authority.remove_prefix(close + 1);
    if (!authority.empty() && authority.front() != ':') return wrong("there is text after the IPv6 address");
    if (!authority.empty()) port = authority.substr(1);
    if (!authority.empty() && port.empty()) return wrong("the port is empty");
    if (!is_v6(out.host)) return wrong("what stands in brackets is no IPv6 address");
  } else {
    const size_t colon = authority.find(':');
    out.host = authority.substr(0, colon);
    if (colon != std::string_view::npos) {
      port = authority.substr(colon + 1);
      if (port.empty()) return wrong("the port is empty");
      if (port.find(':') != std::string_view::npos) return wrong("an IPv6 address needs brackets");
    }
  }
  if (out.host.empty()) return wrong("the host is empty");
  if (!is_ip_literal(out.host) && !is_host_name(out.host)) return wrong("the host is neither a name nor an address");
  if (!port.empty()) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), value);
    if (error != std::errc() || end != port.data() + port.size() || value == 0 || value > 65535) {
      return wrong("the port is not a number from 1 to 65535");
    }
    out.port = static_cast<uint16_t>(value);
  }
  return out;
}

client::impl::impl(loop &l, origin o, const client_options &given)
    : home(l),
      to(std::move(o)),
      host_value(bracketed(to.host) + (to.port == (to.tls ? https_port : http_port) ? "" : ":" + std::to_string(to.port))),
      options(given),
      idle_limit_ns(given.idle_limit_ns) {}

connection_ptr client::impl::take_kept() {
  const uint64_t now = now_ns();
  while (!kept.empty()) {
    const connection_ptr newest = std::move(kept.back());
    kept.pop_back();
    if (!newest->closed && now - newest->kept_since_ns < idle_limit_ns) return newest;
    newest->close();
  }
  return nullptr;
}

void client::impl::keep(const connection_ptr &c) {
  if (gone || options.max_kept == 0) return c->close();
  if (kept.size() >= options.max_kept) {
    kept.front()->close();
    kept.erase(kept.begin());
  }
  c->kept_since_ns = now_ns();
  kept.push_back(c);
  c->read_more(options.max_header_bytes);
  // The limit may have been lowered since the timer was armed.
  const uint64_t due = kept.front()->kept_since_ns + idle_limit_ns;
  if (!retire_timer_.armed() || retire_timer_.due_ns() > due) home.arm(retire_timer_, due);
}

void client::impl::retire() {
  const uint64_t now = now_ns();
  while (!kept.empty() && now - kept.front()->kept_since_ns >= idle_limit_ns) {
    kept.front()->close();
    kept.erase(kept.begin());
  }
  if (!kept.empty()) home.arm(retire_timer_, kept.front()->kept_since_ns + idle_limit_ns);
}

// Two closes in a row at about the same age are a habit of the origin, one may be a restart: from then on connections are
// retired at three quarters of that age.
void client::impl::on_kept_closed(origin_connection &c, bool orderly) {
  const connection_ptr hold(&c);
  c.close();
  std::erase(kept, hold);
  if (!orderly) return;
  const uint64_t age = now_ns() - c.kept_since_ns;
  const uint64_t before = std::exchange(early_close_ns_, age);
  const bool alike = before != 0 && age < before + before / 4 && before < age + age / 4;
  if (alike && age < idle_limit_ns) idle_limit_ns = std::max(least_idle_limit_ns, age / 4 * 3);
}

void client::impl::shut() {
  gone = true;
  retire_timer_.disarm();
  for (const connection_ptr &c : std::exchange(kept, {})) c->close();
}

client::client(loop &l, origin o, const client_options &options) : impl_(std::make_shared<impl>(l, std::move(o), options)) {}
client::~client() { impl_->shut(); }

std::unique_ptr<call> client::start(call_request request, call_events &events) {
  return std::make_unique<running_call>(impl_, std::move(request), events);
}

uint64_t client::idle_limit_ns() const { return impl_->idle_limit_ns; }
size_t client::kept() const { return impl_->kept.size(); }
size_t client::open() const { return impl_->open; }

}  // namespace hive::http
