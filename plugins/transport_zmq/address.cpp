#include "address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <cstring>

namespace hive::transport_zmq {

std::string parse_literal(std::string_view text, literal &out) {
  const std::string wrong = "address \"" + std::string(text) + "\": ";
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong + "expected HOST:PORT, for example 127.0.0.1:50051";
  std::string_view host = text.substr(0, colon), port = text.substr(colon + 1);
  const auto r = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (port.empty() || r.ec != std::errc() || r.ptr != port.data() + port.size())
    return wrong + "the port must be a number from 0 to 65535";
  out.ipv6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (out.ipv6) host = host.substr(1, host.size() - 2);
  out.host = host;
  in6_addr buffer;
  if (inet_pton(out.ipv6 ? AF_INET6 : AF_INET, out.host.c_str(), &buffer) != 1)
    return wrong + "the host must be an IPv4 address or an IPv6 address in brackets, not a name";
  return {};
}

std::string to_text(const literal &l) {
  return (l.ipv6 ? "[" + l.host + "]" : l.host) + ":" + std::to_string(l.port);
}

namespace {

bool end_of(const sockaddr_storage &s, std::string &ip, uint16_t &port) {
  char text[INET6_ADDRSTRLEN];
  if (s.ss_family == AF_INET) {
    const auto &a = reinterpret_cast<const sockaddr_in &>(s);
    ip = inet_ntop(AF_INET, &a.sin_addr, text, sizeof text);
    port = ntohs(a.sin_port);
    return true;
  }
  if (s.ss_family != AF_INET6) return false;
  const auto &a = reinterpret_cast<const sockaddr_in6 &>(s);
  if (IN6_IS_ADDR_V4MAPPED(&a.sin6_addr))
    ip = inet_ntop(AF_INET, a.sin6_addr.s6_addr + 12, text, sizeof text);
  else
    ip = inet_ntop(AF_INET6, &a.sin6_addr, text, sizeof text);
  port = ntohs(a.sin6_port);
  return true;
}

}  // namespace

connection_name name_of(int fd) {
  connection_name out;
  sockaddr_storage peer{}, local{};
  socklen_t n = sizeof peer, m = sizeof local;
  std::string own_ip;
  if (getpeername(fd, reinterpret_cast<sockaddr *>(&peer), &n) != 0 || getsockname(fd, reinterpret_cast<sockaddr *>(&local), &m) != 0)
    return out;
  if (!end_of(local, own_ip, out.local_port) || !end_of(peer, out.peer_ip, out.peer_port)) return {};
  return out;
}

bool is_loopback(std::string_view ip) { return ip.starts_with("127.") || ip == "::1"; }

std::string site_of(const std::string &ip) {
  in6_addr six;
  if (ip.find(':') == std::string::npos || inet_pton(AF_INET6, ip.c_str(), &six) != 1) return ip;
  constexpr size_t kept = 7;
  std::memset(six.s6_addr + kept, 0, sizeof six.s6_addr - kept);
  char text[INET6_ADDRSTRLEN];
  return std::string(inet_ntop(AF_INET6, &six, text, sizeof text)) + "/56";
}

bool cut_connection(int fd, const connection_name &expected) {
  return expected.known() && name_of(fd) == expected && shutdown(fd, SHUT_RDWR) == 0;
}

}  // namespace hive::transport_zmq
