#include "config/edge_settings.hpp"

#include "base/clock.hpp"
#include "base/host_text.hpp"
#include "config/router_settings.hpp"

namespace hive::config {

void add_edge_rows(table &t, edge_settings &e) {
  t.section("HTTP listeners");
  t.add("tls-cert-file", &e.certificate_file, "",
        "Certificate (PEM, the listener's own first, then those in between) that makes --http-port and --admin-listen speak TLS; read "
        "again on SIGHUP. Empty = plain HTTP.").shown_as("PATH");
  t.add("tls-key-file", &e.key_file, "", "Its private key (PEM, without a passphrase).").shown_as("PATH");
  t.add("tls-min-version", &e.least_tls, "1.2", "The oldest TLS that is spoken.").choices({"1.2", "1.3"});
  t.add("admin-listen", &e.admin, "",
        "A listener of its own for /admin, which --http-port then answers with 404. Without it /admin is on --http-port.");
  t.add("admin-tls-client-ca-file", &e.admin_client_ca_file, "",
        "Certificate authorities (PEM): clients of --admin-listen need a certificate of theirs, beside the key.").shown_as("PATH");
  t.add("metrics-tls", &e.metrics_tls, "", "--metrics-port speaks TLS, too, with the same certificate.");
  t.add("tls-handshake-timeout", &e.handshake_timeout, "10s",
        "From accepting a connection to the end of its TLS handshake.").range(100 * ns_per_ms, ns_per_hour);
  t.add("http-max-header-bytes", &e.max_head, "32768", "Largest request head.").range(1024, 32768);
  t.add("http-header-timeout", &e.header_timeout, "10s", "From the first byte of a request's head to its end.").range(100 * ns_per_ms, ns_per_hour);
  t.add("http-idle-timeout", &e.idle_timeout, "2m", "How long a connection without a request is kept.").range(100 * ns_per_ms, ns_per_day);
  t.add("http-body-timeout", &e.body_timeout, "30s", "Between two reads of a request's body.").range(100 * ns_per_ms, ns_per_hour);
  t.add("http-body-min-rate", &e.body_rate, "256",
        "Bytes a second that a request's body brings on average, with --http-body-timeout to begin with; a slower one gets 408. 0 = any.")
      .range(0, 1ULL << 30);
  t.add("max-connections-per-address", &e.connections_per_address, "0",
        "Client connections from one IPv4 address or IPv6 /64, over all workers; further ones are closed at once. Loopback and "
        "--trusted-proxies are not counted. 0 = any number.").range(0, 1'000'000);
  t.add("max-requests-per-connection", &e.requests_per_connection, "0",
        "Requests after which a connection is closed, with a word to the client in the last answer. 0 = any number.").range(0, 1'000'000'000);
}

void resolve_edge(const table &t, router_settings &r, std::vector<status> &problems, std::vector<std::string> &warnings) {
  edge_settings &e = r.edge;
  const auto wrong = [&](const char *name, std::string what) {
    const setting *row = t.find(name);
    problems.push_back(fail(errc::invalid, std::move(what), row->source.empty() ? name : row->source));
  };
  if (e.certificate_file.empty() != e.key_file.empty())
    wrong(e.certificate_file.empty() ? "tls-key-file" : "tls-cert-file", "a certificate and its key go together; set --tls-cert-file and --tls-key-file");
  e.admin_apart = t.origin_of("admin-listen") != origin::built_in;
  if (e.metrics_tls && !e.tls()) wrong("metrics-tls", "TLS needs a certificate; set --tls-cert-file and --tls-key-file");
  if (!e.admin_client_ca_file.empty() && (!e.admin_apart || !e.tls()))
    wrong("admin-tls-client-ca-file", "client certificates need a listener of their own with TLS; set --admin-listen, --tls-cert-file and --tls-key-file");
  const address &admin = e.admin;
  if (e.admin_apart && admin.port != 0 && (admin == r.http || admin == r.metrics))
    wrong("admin-listen", admin.text() + " is --http-port or --metrics-port, too; /admin on --http-port needs no --admin-listen");
  if (e.admin_apart && !e.tls() && !is_loopback(admin.host))
    warnings.push_back("admin keys go over the network in the clear to " + admin.text() + "; set --tls-cert-file and --tls-key-file");
}

}  // namespace hive::config
