// How many connections one address may have, over all the servers of a program. Any thread; its lock is held for a look into a
// map when a connection begins or ends.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace hive::http {

// What counts as one address: an IPv4 address, or the /64 of an IPv6 one, which is what whoever has one of it has.
using peer_name = std::array<uint8_t, 16>;
std::optional<peer_name> peer_name_of(std::string_view address);  // empty: no address
struct peer_name_hash {
  size_t operator()(const peer_name &n) const { return std::hash<std::string_view>()({reinterpret_cast<const char *>(n.data()), n.size()}); }
};

class peer_limit {
 public:
  enum class entry { uncounted, counted, refused };

  // `exempt` says whose connections are not counted; it is called on the servers' threads.
  peer_limit(size_t most, std::function<bool(std::string_view address)> exempt) : most_(most), exempt_(std::move(exempt)) {}
  // Whoever was counted has to leave().
  entry enter(std::string_view address);
  void leave(std::string_view address);

 private:
  const size_t most_;
  const std::function<bool(std::string_view)> exempt_;
  std::mutex mutex_;
  std::unordered_map<peer_name, size_t, peer_name_hash> open_;
};

}  // namespace hive::http
