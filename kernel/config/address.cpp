#include "config/address.hpp"

#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "base/host_text.hpp"
#include "base/text.hpp"

namespace hive::config {
namespace {

bool parse_port(std::string_view text, uint16_t &port) {
  if (text.empty() || text.size() > 5 || (text.size() > 1 && text.front() == '0')) return false;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > 65535) return false;
  port = static_cast<uint16_t>(value);
  return true;
}

status refuse(std::string_view text, const char *right) {
  return fail(errc::invalid, "\"" + std::string(text) + "\" is not an address; write " + right);
}

// HOST[:PORT] of a URL, where no port is 80.
std::optional<address> parse_authority(std::string_view text) {
  const bool bare_v6 = text.starts_with('[') && text.ends_with(']');
  const bool has_port = !bare_v6 && text.find(':') != std::string_view::npos;
  auto parsed = parse_address(has_port ? std::string(text) : std::string(text) + ":80");
  if (!parsed || parsed->host.empty() || (has_port && parsed->port == 0)) return std::nullopt;
  return *std::move(parsed);
}

constexpr char listen_form[] = "one like :8080, 127.0.0.1:8080 or [::1]:8080";
constexpr char announce_form[] = "a host, HOST:PORT, /ip4/ADDRESS/tcp/PORT or /dns4/NAME/tcp/PORT";

}  // namespace

std::string address::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

result<address> parse_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  address out;
  if (colon == std::string_view::npos || !parse_port(text.substr(colon + 1), out.port)) return refuse(text, listen_form);
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[')) {
    if (!host.ends_with(']') || !is_v6(host.substr(1, host.size() - 2))) return refuse(text, listen_form);
    host = host.substr(1, host.size() - 2);
  } else if (!host.empty() && !is_v4(host) && !is_host_name(host)) {
    return refuse(text, listen_form);
  }
  out.host = host;
  return out;
}

result<std::string> parse_announce(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with('/')) {
    const std::vector<std::string> parts = split_trimmed(rest, '/');
    uint16_t port = 0;
    if (parts.size() != 4 || parts[2] != "tcp" || !parse_port(parts[3], port)) return refuse(text, announce_form);
    const std::string &kind = parts[0], &host = parts[1];
    const bool fits = kind == "ip4" ? is_v4(host) : kind == "ip6" ? is_v6(host)
                      : (kind == "dns" || kind == "dns4" || kind == "dns6") && is_host_name(host);
    if (!fits) return refuse(text, announce_form);
    return host;
  }
  if (rest.starts_with("tcp://")) rest.remove_prefix(6);
  if (is_ip_literal(rest) || is_host_name(rest)) return std::string(rest);
  const auto pair = parse_address(rest);
  if (!pair || pair->host.empty()) return refuse(text, announce_form);
  return pair->host;
}

result<std::string> parse_base_url(std::string_view text) {
  // What stands before an @ or in a query may be a password, and this is going to be printed.
  const bool secret = text.find_first_of("@?#") != std::string_view::npos;
  const auto refuse_url = [&](const char *why) {
    return fail(errc::invalid, (secret ? "the URL " : "\"" + std::string(text) + "\" ") + why + "; write one like http://localhost:8888");
  };
  std::string_view rest = text;
  if (rest.starts_with("http://")) rest.remove_prefix(7);
  else if (rest.starts_with("https://")) rest.remove_prefix(8);
  else return refuse_url("is not an http:// or https:// URL");
  if (rest.find_first_of("?#") != std::string_view::npos) return refuse_url("holds a query or fragment");
  for (const char c : rest)
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f || c == '"' || c == '<' || c == '>' || c == '\\')
      return refuse_url("holds a character that a URL may not hold");
  const std::string_view authority = rest.substr(0, rest.find('/'));
  if (authority.find('@') != std::string_view::npos) return refuse_url("holds a user name");
  if (!parse_authority(authority)) return refuse_url("has no valid host and port");
  while (text.ends_with('/')) text.remove_suffix(1);
  return std::string(text);
}

std::string host_of_url(std::string_view url) {
  const size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return {};
  const std::string_view rest = url.substr(scheme + 3);
  const auto authority = parse_authority(rest.substr(0, rest.find('/')));
  return authority ? authority->host : std::string();
}

}  // namespace hive::config
