// Whose word is taken for a client's address (--trusted-proxies). Without any, nobody's: X-Forwarded-For is what a client
// writes, and an audit line that believes it can be forged. Immutable, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "http/message.hpp"

namespace hive::gateway {

class trusted_proxies {
 public:
  trusted_proxies() = default;
  // Addresses and CIDR ranges: "10.0.0.0/8", "fd00::/8", "192.0.2.7".
  static result<trusted_proxies> parse(const std::vector<std::string> &list);

  // The address of the client behind `peer`. If the peer is trusted: the last entry of X-Forwarded-For that is not trusted
  // itself, else X-Real-IP. What is no IP address counts for nothing, so the answer is always one.
  std::string client_of(std::string_view peer, std::span<const http::field> fields) const;
  bool trusts(std::string_view peer) const;   // whether it is one of them

 private:
  struct network {
    std::array<uint8_t, 16> bytes;  // an IPv4 address as ::ffff:a.b.c.d
    unsigned bits;
  };
  bool trusts(const std::array<uint8_t, 16> &) const;

  std::vector<network> networks_;
};

}  // namespace hive::gateway
