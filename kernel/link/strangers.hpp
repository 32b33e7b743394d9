// How many connections may be without a proof of the secret, in all and of one address, and how often the log hears of those
// that are too many. Belongs to the hub's loop.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace hive::link {

// What counts as one address: an IPv4 address, or the /56 of an IPv6 one, which is what a site gets. Empty for loopback, which
// is not counted, and for what is no address. `address` may have a port.
std::string address_group(std::string_view address);

class stranger_budget {
 public:
  static constexpr size_t most_told = 1024;

  stranger_budget(uint32_t per_address, uint32_t in_all) : per_address_(per_address), in_all_(in_all) {}

  enum class answer { enter, too_many, too_many_of_address };
  answer enter(const std::string &group);
  void leave(const std::string &group);          // one that had entered
  // Whether a refusal of `group` is to be logged now: once a minute each.
  bool worth_a_line(const std::string &group, uint64_t now_ns);
  uint32_t inside() const { return inside_; }

 private:
  const uint32_t per_address_, in_all_;
  uint32_t inside_ = 0;
  std::unordered_map<std::string, uint32_t> of_address_;
  std::unordered_map<std::string, uint64_t> quiet_until_ns_;
};

}  // namespace hive::link
