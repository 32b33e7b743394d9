#include "apps/http_edge.hpp"

#include <algorithm>
#include <utility>

#include "base/host_text.hpp"

namespace hive::apps {

namespace {

// Operators and their tools are few; strangers who find their port may not take the clients' descriptors.
constexpr uint64_t most_own_connections = 256;
constexpr size_t address_share = 8;  // one stranger may not take them all
constexpr uint64_t kept_descriptors = 64;

std::unique_ptr<http::peer_limit> peers_of(const config::edge_settings &s, const gateway::trusted_proxies &proxies) {
  if (s.connections_per_address == 0) return nullptr;
  return std::make_unique<http::peer_limit>(static_cast<size_t>(s.connections_per_address),
                                            [proxies](std::string_view address) { return is_loopback(address) || proxies.trusts(address); });
}

}  // namespace

connection_shares share_descriptors(uint64_t allowed, size_t own_listeners) {
  const auto kept = [&](uint64_t own) { return std::max<uint64_t>(allowed / 8, own_listeners * own + kept_descriptors); };
  uint64_t own = most_own_connections;
  if (kept(own) > allowed / 2) own = std::clamp<uint64_t>(allowed / 16, 1, most_own_connections);
  return {allowed - std::min(kept(own), allowed / 2), static_cast<size_t>(own)};
}

http_edge::http_edge(const config::edge_settings &s, const gateway::trusted_proxies &proxies, uint64_t descriptors)
    : settings_(s), shares_(share_descriptors(descriptors, s.admin_apart ? 2 : 1)), peers_(peers_of(s, proxies)),
      own_peers_(std::make_unique<http::peer_limit>(std::max<size_t>(shares_.own / address_share, 1), is_loopback)) {}

status http_edge::read(identity &clients, identity &admin, std::vector<std::string> &warnings) const {
  if (!settings_.tls()) return {};
  http::tls_files files{settings_.certificate_file, settings_.key_file, {}, settings_.least_tls == "1.3"};
  auto read = http::tls_identity::load(files);
  if (!read) return read.why();
  clients = admin = *read;
  warnings.insert(warnings.end(), clients->warnings().begin(), clients->warnings().end());
  if (settings_.admin_client_ca_file.empty()) return {};
  files.client_ca = settings_.admin_client_ca_file;
  auto guarded = http::tls_identity::load(files);
  if (!guarded) return guarded.why();
  admin = *guarded;
  return {};
}

status http_edge::start(std::vector<std::string> &warnings) { return read(clients_, admin_, warnings); }

status http_edge::reload(std::vector<std::string> &warnings) {
  if (!settings_.tls()) return {};
  identity clients, admin;
  status s = read(clients, admin, warnings);
  if (s.ok() && clients->expired() && !clients_->expired())
    s = fail(errc::invalid, "the certificate has expired, and the one in use has not", settings_.certificate_file);
  if (!s) {
    ++stats_.certificates_refused;
    return s;
  }
  ++stats_.certificates_read;
  clients_ = std::move(clients);
  admin_ = std::move(admin);
  note_certificates();
  return {};
}

void http_edge::note_certificates() {
  for (admin::edge_listener &l : stats_.listeners) {
    const identity &shown = l.name == "admin" ? admin_ : l.name == "metrics" ? for_metrics() : clients_;
    l.certificate_expires_unix_s = shown ? shown->expires_unix_s() : 0;
  }
}

http::server_limits http_edge::client_limits() const {
  http::server_limits l = own_limits();
  l.max_connections = http::server_limits{}.max_connections;
  l.body_bytes_per_s = settings_.body_rate.bytes;
  l.max_requests = static_cast<uint32_t>(settings_.requests_per_connection);
  l.peers = peers_.get();
  return l;
}

http::server_limits http_edge::own_limits() const {
  http::server_limits l;
  l.max_header_bytes = settings_.max_head.bytes;
  l.handshake_timeout_ns = settings_.handshake_timeout.ns;
  l.header_timeout_ns = settings_.header_timeout.ns;
  l.idle_timeout_ns = settings_.idle_timeout.ns;
  l.body_idle_timeout_ns = settings_.body_timeout.ns;
  l.max_connections = shares_.own;
  l.peers = own_peers_.get();
  return l;
}

}  // namespace hive::apps
