// How many connections one address may have, over all the servers of a program: an IPv4 address, an IPv6 /64. Any thread; its lock is
// held for a look into a map when a connection begins or ends.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace hive::http {

class peer_limit {
 public:
  enum class entry { uncounted, counted, refused };

  // `exempt` says whose connections are not counted; it is called on the servers' threads.
  peer_limit(size_t most, std::function<bool(std::string_view address)> exempt) : most_(most), exempt_(std::move(exempt)) {}
  // Who was counted has to leave().
  entry enter(std::string_view address);
  void leave(std::string_view address);

 private:
  using name = std::array<uint8_t, 16>;
  struct hash {
    size_t operator()(const name &n) const { return std::hash<std::string_view>()({reinterpret_cast<const char *>(n.data()), n.size()}); }
  };
  static bool named(std::string_view address, name &out);  // false: no address

  const size_t most_;
  const std::function<bool(std::string_view)> exempt_;
  std::mutex mutex_;
  std::unordered_map<name, size_t, hash> open_;
};

}  // namespace hive::http
