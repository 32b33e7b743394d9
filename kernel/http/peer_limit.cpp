#include "http/peer_limit.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>

namespace hive::http {

std::optional<peer_name> peer_name_of(std::string_view address) {
  namespace ip = boost::asio::ip;
  boost::system::error_code error;
  const ip::address a = ip::make_address(address, error);
  if (error) return {};
  peer_name out = a.is_v6() ? a.to_v6().to_bytes() : ip::make_address_v6(ip::v4_mapped, a.to_v4()).to_bytes();
  if (a.is_v6()) std::fill(out.begin() + 8, out.end(), uint8_t{0});
  return out;
}

peer_limit::entry peer_limit::enter(std::string_view address) {
  const auto who = peer_name_of(address);
  if (!who || (exempt_ && exempt_(address))) return entry::uncounted;
  const std::lock_guard guard(mutex_);
  size_t &open = open_[*who];
  if (open >= most_) return entry::refused;
  ++open;
  return entry::counted;
}

void peer_limit::leave(std::string_view address) {
  const auto who = peer_name_of(address);
  if (!who) return;
  const std::lock_guard guard(mutex_);
  const auto at = open_.find(*who);
  if (at != open_.end() && --at->second == 0) open_.erase(at);
}

}  // namespace hive::http
