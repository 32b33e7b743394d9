#include "gateway/trusted_proxies.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <optional>

#include "base/text.hpp"

namespace hive::gateway {

namespace {

namespace ip = boost::asio::ip;
using bytes = std::array<uint8_t, 16>;

std::optional<bytes> bytes_of(std::string_view text) {
  boost::system::error_code error;
  const ip::address a = ip::make_address(text, error);
  if (error || (a.is_v6() && a.to_v6().scope_id() != 0)) return std::nullopt;
  if (a.is_v6()) return a.to_v6().to_bytes();
  return ip::make_address_v6(ip::v4_mapped, a.to_v4()).to_bytes();
}

std::string text_of(const bytes &b) {
  const ip::address_v6 v6(b);
  return v6.is_v4_mapped() ? ip::make_address_v4(ip::v4_mapped, v6).to_string() : v6.to_string();
}

// "1.2.3.4", "1.2.3.4:80", "2001:db8::1", "[2001:db8::1]:80", quotes around them as in Forwarded.
std::optional<bytes> hop_of(std::string_view text) {
  text = trim(text);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    return end == std::string_view::npos ? std::nullopt : bytes_of(text.substr(1, end - 1));
  }
  if (std::count(text.begin(), text.end(), ':') == 1) text = text.substr(0, text.find(':'));
  return bytes_of(text);
}

}  // namespace

result<trusted_proxies> trusted_proxies::parse(const std::vector<std::string> &list) {
  trusted_proxies out;
  for (const std::string &text : list) {
    const auto wrong = [&] {
      return fail(errc::invalid, "\"" + text + "\" is no IP address and no range; write one like 10.0.0.0/8 or fd00::/8", "trusted-proxies");
    };
    const size_t slash = text.find('/');
    const std::string_view host = std::string_view(text).substr(0, slash);
    const auto address = bytes_of(host);
    if (!address) return wrong();
    const unsigned most = host.find(':') == std::string_view::npos ? 32 : 128;
    unsigned bits = most;
    if (slash != std::string::npos) {
      const char *end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, bits);
      if (error != std::errc() || stop != end || bits > most) return wrong();
    }
    out.networks_.push_back({*address, bits + 128 - most});
  }
  return out;
}

bool trusted_proxies::trusts(const bytes &address) const {
  return std::any_of(networks_.begin(), networks_.end(), [&](const network &n) {
    const unsigned whole = n.bits / 8, rest = n.bits % 8;
    if (!std::equal(address.begin(), address.begin() + whole, n.bytes.begin())) return false;
    const auto mask = static_cast<uint8_t>(0xff00u >> rest);
    return rest == 0 || ((address[whole] ^ n.bytes[whole]) & mask) == 0;
  });
}

bool trusted_proxies::trusts(std::string_view peer) const {
  const auto address = networks_.empty() ? std::nullopt : bytes_of(peer);
  return address && trusts(*address);
}

std::string trusted_proxies::client_of(std::string_view peer, std::span<const http::field> fields) const {
  if (networks_.empty()) return std::string(peer);
  auto client = bytes_of(peer);
  if (!client || !trusts(*client)) return std::string(peer);
  bool forwarded = false;
  for (auto f = fields.rbegin(); f != fields.rend(); ++f) {
    if (!iequals(f->name, "x-forwarded-for")) continue;
    forwarded = true;
    const std::vector<std::string> hops = split_trimmed(f->value, ',');
    for (auto hop = hops.rbegin(); hop != hops.rend(); ++hop) {
      const auto before = hop_of(*hop);
      if (!before) return text_of(*client);
      client = before;
      if (!trusts(*client)) return text_of(*client);
    }
  }
  if (!forwarded)
    if (const http::field *f = http::find_field(fields, "x-real-ip"))
      if (const auto real = hop_of(f->value)) client = real;
  return text_of(*client);
}

}  // namespace hive::gateway
