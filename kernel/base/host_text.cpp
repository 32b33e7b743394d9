#include "base/host_text.hpp"

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/text.hpp"

namespace hive {
namespace {

// inet_pton reads up to a NUL, and a text may hold one.
template <class Address>
bool parse_literal(int family, std::string_view host, Address &out) {
  return host.find('\0') == std::string_view::npos && inet_pton(family, std::string(host).c_str(), &out) == 1;
}

bool is_literal(int family, std::string_view host) {
  in6_addr parsed;
  return parse_literal(family, host, parsed);
}

bool all_of_a_name(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
  });
}

}  // namespace

bool is_v4(std::string_view host) { return is_literal(AF_INET, host); }

bool is_v6(std::string_view host) {
  const size_t percent = host.find('%');
  if (percent == std::string_view::npos) return is_literal(AF_INET6, host);
  const std::string_view zone = host.substr(percent + 1);
  return !zone.empty() && zone.size() < IF_NAMESIZE && all_of_a_name(zone) && is_literal(AF_INET6, host.substr(0, percent));
}

bool is_ip_literal(std::string_view host) { return is_v4(host) || is_v6(host); }

bool is_host_name(std::string_view host) {
  if (host.empty() || host.size() > 253 || host.front() == '-' || host.front() == '.') return false;
  return host.find_first_not_of("0123456789.") != std::string_view::npos && all_of_a_name(host);
}

bool is_loopback(std::string_view host) {
  constexpr uint32_t net = 127;
  if (iequals(host, "localhost")) return true;
  if (in_addr four; parse_literal(AF_INET, host, four)) return ntohl(four.s_addr) >> 24 == net;
  in6_addr six;
  if (!is_v6(host) || !parse_literal(AF_INET6, host.substr(0, host.find('%')), six)) return false;
  return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == net);
}

}  // namespace hive
