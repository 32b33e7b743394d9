#include "link/strangers.hpp"

#include <boost/asio/ip/address.hpp>

#include "base/clock.hpp"
#include "base/host_text.hpp"

namespace hive::link {
namespace {

constexpr uint64_t quiet_ns = 60 * ns_per_s;
constexpr size_t site_bytes = 7;  // of an IPv6 address, that is a /56

std::string_view host_of(std::string_view address) {
  if (address.starts_with('[')) return address.substr(1, address.find(']') - 1);
  const size_t colon = address.find(':');
  return colon != std::string_view::npos && address.find(':', colon + 1) == std::string_view::npos ? address.substr(0, colon) : address;
}

}  // namespace

std::string address_group(std::string_view address) {
  const std::string_view host = host_of(address);
  if (is_loopback(host)) return {};
  boost::system::error_code error;
  auto ip = boost::asio::ip::make_address(host, error);
  if (error) return {};
  if (ip.is_v6() && ip.to_v6().is_v4_mapped()) ip = boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, ip.to_v6());
  if (ip.is_v4()) return ip.to_string();
  auto bytes = ip.to_v6().to_bytes();
  for (size_t i = site_bytes; i < bytes.size(); ++i) bytes[i] = 0;
  return boost::asio::ip::address_v6(bytes).to_string() + "/56";
}

stranger_budget::answer stranger_budget::enter(const std::string &group) {
  if (inside_ >= in_all_) return answer::too_many;
  if (!group.empty()) {
    uint32_t &of = of_address_[group];
    if (of >= per_address_) return answer::too_many_of_address;
    ++of;
  }
  ++inside_;
  return answer::enter;
}

void stranger_budget::leave(const std::string &group) {
  --inside_;
  if (const auto found = of_address_.find(group); found != of_address_.end() && --found->second == 0) of_address_.erase(found);
}

bool stranger_budget::worth_a_line(const std::string &group, uint64_t now_ns) {
  const auto known = quiet_until_ns_.find(group);
  if (known != quiet_until_ns_.end()) {
    if (now_ns < known->second) return false;
    known->second = now_ns + quiet_ns;
    return true;
  }
  if (quiet_until_ns_.size() >= most_told) {
    std::erase_if(quiet_until_ns_, [&](const auto &e) { return e.second <= now_ns; });
    if (quiet_until_ns_.size() >= most_told) return false;  // a minute with so many addresses has lines enough
  }
  quiet_until_ns_.emplace(group, now_ns + quiet_ns);
  return true;
}

}  // namespace hive::link
