// Literal addresses, and what a connected descriptor says about both of its ends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hive::transport_zmq {

struct literal {
  std::string host;  // without brackets
  uint16_t port = 0;
  bool ipv6 = false;
};

// HOST:PORT with an IPv4 or bracketed IPv6 literal. libzmq would resolve a name on its I/O thread, where a slow answer
// stalls every connection, so names are refused. Returns what is wrong, or empty.
std::string parse_literal(std::string_view text, literal &out);
std::string to_text(const literal &);

// Both ends of a connected TCP socket. Identifies a connection where a descriptor number alone may have been reused.
struct connection_name {
  std::string peer_ip;
  uint16_t peer_port = 0;
  uint16_t local_port = 0;
  bool known() const { return peer_port != 0; }
  bool operator==(const connection_name &) const = default;
};

// Unknown (peer_port 0) when `fd` is not a connected TCP socket. IPv4-mapped addresses come out as IPv4.
connection_name name_of(int fd);
bool is_loopback(std::string_view ip);
// What limits count as one address: an IPv4 address, or the /56 of an IPv6 one, which is what a site gets.
std::string site_of(const std::string &ip);

// Ends the connection on `fd` if it still is `expected`. libzmq keeps owning the descriptor.
bool cut_connection(int fd, const connection_name &expected);

}  // namespace hive::transport_zmq
