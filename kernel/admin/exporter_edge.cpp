// The families of the HTTP listeners: certificates, and who was turned away before a request was there.
#include <span>

#include "admin/exporter.hpp"

namespace hive::admin {

using observe::label_text;
using observe::metric_kind;

void exporter::collect_edge(observe::exposition &out) const {
  struct cause {
    const char *label;
    tally http::server_counters::*count;
  };
  const auto sum = [](const edge_listener &l, tally http::server_counters::*count) {
    uint64_t total = 0;
    for (const http::server_counters *s : l.servers) total += s->*count;
    return total;
  };
  const auto by_cause = [&](const char *name, const char *help, const char *label, std::span<const cause> causes) {
    out.family(metric_kind::counter, name, help);
    for (const edge_listener &l : on_.edge->listeners)
      for (const cause &c : causes) out.series(label_text({"listener", label}, {l.name, c.label}), sum(l, c.count));
  };
  static constexpr cause refused[] = {{"address_limit", &http::server_counters::refused_address},
                                      {"tls_handshake", &http::server_counters::handshakes_failed},
                                      {"tls_timeout", &http::server_counters::handshake_timeouts}};
  static constexpr cause timeouts[] = {{"idle", &http::server_counters::idle_timeouts},
                                       {"header", &http::server_counters::header_timeouts},
                                       {"body", &http::server_counters::body_timeouts}};
  by_cause("http_connections_refused_total", "Connections that ended before they could carry a request", "reason", refused);
  by_cause("http_server_timeouts_total", "Connections that were given up because nothing, or too little, came", "phase", timeouts);

  out.family(metric_kind::counter, "tls_handshakes_total", "TLS handshakes that came to their end");
  for (const edge_listener &l : on_.edge->listeners)
    if (l.certificate_expires_unix_s != 0) out.series(label_text({"listener"}, {l.name}), sum(l, &http::server_counters::handshakes));
  out.family(metric_kind::gauge, "tls_certificate_expiry_timestamp_seconds", "When the first certificate of the listener's chain expires");
  for (const edge_listener &l : on_.edge->listeners)
    if (l.certificate_expires_unix_s != 0)
      out.series(label_text({"listener"}, {l.name}), static_cast<uint64_t>(l.certificate_expires_unix_s));
  out.family(metric_kind::counter, "tls_reload_total", "Certificates read again");
  out.series(label_text({"result"}, {"success"}), on_.edge->certificates_read);
  out.series(label_text({"result"}, {"error"}), on_.edge->certificates_refused);
}

}  // namespace hive::admin
