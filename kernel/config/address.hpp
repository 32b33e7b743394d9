// Addresses as an operator writes them. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace hive::config {

struct address {
  std::string host;   // without brackets; empty = every interface
  uint16_t port = 0;  // 0 = any free one

  std::string text() const;  // ":8080", "127.0.0.1:8080", "[::1]:0"
  bool operator==(const address &) const = default;
};

// `:8080`, `127.0.0.1:8080`, `name:8080`, `[::1]:0`. The port is required, the host is not.
result<address> parse_address(std::string_view text);

// The host of an announce address: `/ip4/A/tcp/P`, `/ip6/A/tcp/P`, `/dns4/NAME/tcp/P` (dns, dns6 too), `tcp://HOST:PORT`,
// HOST:PORT or HOST. A port is checked and left out (workers have ports of their own).
result<std::string> parse_announce(std::string_view text);

// http://HOST[:PORT][/PATH], https likewise; no user, query or fragment. Answers it without a trailing slash.
result<std::string> parse_base_url(std::string_view text);
// The host of such a URL, without brackets; empty when it is none.
std::string host_of_url(std::string_view url);

}  // namespace hive::config
