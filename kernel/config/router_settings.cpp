#include "config/router_settings.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <thread>

#include "base/clock.hpp"
#include "base/host_text.hpp"
#include "base/text.hpp"
#include "config/secret.hpp"

namespace hive::config {

std::optional<double> share_of(const std::string &text) {
  double value = 0;
  const char *const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !(value >= 0 && value <= 1)) return std::nullopt;
  return value;
}

namespace {

status is_ip(const std::string &text) {
  if (is_ip_literal(text)) return {};
  return fail(errc::invalid, "\"" + text + "\" is not an IP address; write one like 127.0.0.1, 0.0.0.0 or ::");
}

status is_announce(const std::string &text) { return text.empty() ? status() : parse_announce(text).why(); }

// "10.0.0.0/8", "fd00::/8" or a plain address.
status is_network(const std::string &text) {
  const size_t slash = text.find('/');
  const std::string host = text.substr(0, slash);
  bool fits = is_ip_literal(host);
  if (slash != std::string::npos) {
    const std::string bits = text.substr(slash + 1);
    const bool digits = !bits.empty() && bits.size() < 4 && bits.find_first_not_of("0123456789") == std::string::npos;
    fits = fits && digits && std::stoi(bits) <= (host.find(':') == std::string::npos ? 32 : 128);
  }
  return fits ? status() : fail(errc::invalid, "\"" + text + "\" is no IP address and no range; write one like 10.0.0.0/8 or fd00::/8");
}

status is_share(const std::string &text) {
  return share_of(text) ? status() : fail(errc::invalid, "\"" + text + "\" is no fraction; write a number from 0 to 1, such as 0.2");
}

status not_empty(const std::string &text) { return text.empty() ? fail(errc::invalid, "must not be empty") : status(); }

// As a browser says it: scheme and host in lower case, a port only if it is not the usual one, nothing behind it.
status is_origin(const std::string &text) {
  const size_t scheme = text.find("://");
  const std::string_view host = scheme == std::string::npos ? std::string_view() : std::string_view(text).substr(scheme + 3);
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f && !std::isupper(c); });
  if (text == "*" || (scheme != 0 && !host.empty() && plain && host.find_first_of("/?#@,*") == std::string_view::npos)) return {};
  return fail(errc::invalid, "\"" + text + "\" is no origin; write scheme and host as a browser does, such as https://app.example, or *");
}

void add_addresses(table &t, router_settings &r) {
  t.section("Addresses");
  t.add("http-port", &r.http, ":8080",
        "Client and admin HTTP. Without a given address and without authentication only 127.0.0.1 is bound.");
  t.add("metrics-port", &r.metrics, ":2112",
        "GET /metrics, no authentication. Without a given address only 127.0.0.1 is bound.");
  t.add("link-listen", &r.written.link_listen, "",
        "Where agents connect; worker i listens on port + i, with port 0 each on its own. Wins over --grpc-port and "
        "--p2p-listen-addr.");
  t.add("grpc-port", &r.written.grpc_port, ":50051",
        "Port where agents connect; a host in it wins over --p2p-listen-addr.");
  t.add("p2p-listen-addr", &r.written.p2p_listen_addr, "127.0.0.1",
        "Host where agents connect; 0.0.0.0 for agents on other machines.").check(is_ip).shown_as("IP");
  t.add("p2p-announce-addr", &r.written.p2p_announce_addr, "",
        "Host told to agents instead of the bound one: HOST, /ip4/ADDRESS/tcp/PORT or /dns4/NAME/tcp/PORT. A port "
        "in it is ignored.").check(is_announce).shown_as("HOST");
  t.add("p2p-max-conns-per-ip", &r.connections_per_address, "32",
        "Agent connections from one IPv4 address or IPv6 /56, per listening port. Loopback is not counted.").range(1, 1'000'000);
  t.add("p2p-max-strangers", &r.strangers, "256",
        "Connections on one listening port that are in their handshake, and as many again that have not proven the secret yet.").range(1, 65536);
  t.add("p2p-max-strangers-per-ip", &r.strangers_per_address, "8",
        "The same of one IPv4 address or IPv6 /56. Loopback is not counted.").range(1, 65536);
  t.add("p2p-port", &r.written.unused, "", "Port of the old data plane.").unused(
        "agents use one port, --grpc-port or --link-listen").shown_as("NUMBER");
  t.add("ready-fd", &r.ready_fd, "1",
        "File descriptor that gets the JSON line `ready` with every bound address.").range(1, 65535);
}

void add_limits(table &t, router_settings &r) {
  t.section("Capacity and time");
  t.add("workers", &r.workers, "",
        "Worker threads. 0 = by cores: 1 up to 2 cores, else a half, at most 4.").range(0, 64);
  t.add("queue-size", &r.queue_size, "100",
        "Requests that may wait for a forward slot, over all workers.").range(1, 1'000'000);
  t.add("max-concurrent", &r.max_concurrent, "50", "Requests that are forwarded at once.").range(1, 1'000'000);
  t.add("queue-depth", &r.queue_depth, "30",
        "Requests of one model that may wait for agent capacity, and of one key for its max_parallel_requests; 0 = none.").range(0, 1'000'000);
  t.add("queue-bytes", &r.queue_bytes, "64MiB",
        "Bytes of the bodies of one model's requests that may wait for agent capacity.").range(0, 1ULL << 40);
  t.add("max-tries-per-step", &r.max_tries_per_step, "3", "Agents tried in one policy step.").range(1, 100);
  t.add("retry-delay", &r.retry_delay, "20ms",
        "Pause before a request that an agent failed is tried on another one; twice as long after each further failure, up to eight "
        "times, and each request's own, between half of it and all of it. 0 = none.").range(0, 10 * ns_per_s);
  t.add("retry-budget", &r.written.retry_budget, "0.2",
        "Part of a model's live requests that may be on a retry at once; the others end with the error that they have.")
      .check(is_share).shown_as("FRACTION");
  t.add("retry-budget-min", &r.retry_budget_min, "3",
        "So many of a model's requests may be on a retry at once, however few are live.").range(0, 1'000'000);
  t.add("max-request-bytes", &r.max_request, "10485760",
        "Largest request body under /v1; 0 = no limit.").range(0, 1ULL << 32);
  t.add("memory-budget", &r.memory_budget, "512MiB",
        "Bytes that may be held for requests and answers. Above it new requests get 503, an answer that holds over 64 KiB stops "
        "its engine, and after 1 s the largest of those ends as client_slow. 0 = no limit.").range(0, 1ULL << 40);
  t.add("max-connections", &r.max_connections, "16384",
        "Client connections over all workers; further ones wait to be accepted. Descriptors may allow fewer.").range(1, 1'000'000);
  t.add("request-timeout", &r.request_timeout, "60s",
        "One deadline over waiting, tries, forwarding and the whole stream.").range(100 * ns_per_ms, ns_per_day);
  t.add("stream-timeout", &r.stream_timeout, "0s",
        "Replaces the deadline once a stream has begun; 0 = off.").range(0, 7 * ns_per_day);
  t.add("stream-write-timeout", &r.stream_write_timeout, "60s",
        "A client that is owed bytes and acknowledges none for this long is dropped as client_slow; one that takes few at a time is not. "
        "0 = off.").range(0, ns_per_day);
  t.add("sse-keepalive", &r.sse_keepalive, "0s",
        "A stream that is silent for this long gets a comment line between two events; 0 = off.").range(0, ns_per_hour);
  t.add("drain-delay", &r.drain_delay, "0s",
        "How long /health/ready already answers 503 at shutdown before new requests are refused.").range(0, ns_per_hour);
  t.add("drain-timeout", &r.drain_timeout, "30s",
        "How long running requests may take at shutdown, after the delay.").range(0, ns_per_day);
  t.add("slot-release", &r.slot_release, "stream_end",
        "When an agent's slot is free again.").choices({"stream_end", "headers"});
  t.add("client-half-close", &r.client_half_close, "gone",
        "What a client that closes its sending side means: it has gone, or it still reads.").choices({"gone", "allow"});
  t.add("cors-origins", &r.cors_origins, "",
        "Origins whose pages may use the client API from a browser, such as https://app.example; * = all. Empty = none.")
      .check(is_origin).shown_as("A,B");

  t.section("Client routes");
  t.add("allow-route", &r.written.extra_routes, "",
        "Passes POST /v1/NAME on to the engines, too. Known: " + known_route_names() +
            "; another name needs what a model must do, as in images/generations=llm.")
      .repeatable().check(is_allowed_route).shown_as("NAME[=CAPABILITY]");
  t.add("stream-usage", &r.stream_usage, "ask",
        "A stream whose client did not ask for usage: ask the engine for it and keep the extra event, or leave the "
        "request as it is and estimate.").choices({"ask", "leave"});
}

void add_backends(table &t, router_settings &r) {
  t.section("Engines without an agent beside them");
  t.add("backend", &r.written.backends, "",
        "An engine that the router serves by itself: its base URL, with TYPE the id of its engine adapter (vllm, llamacpp, "
        "openai) or without, then that is found out. The file's embedded_agents says more about each.")
      .repeatable().check(is_backend).shown_as("[TYPE=]URL");
}

void add_fleet(table &t, router_settings &r) {
  t.section("Fleet and routing");
  t.add("health-check-interval", &r.health_check_interval, "5s", "Period of the health monitor.").range(10 * ns_per_ms, ns_per_hour);
  t.add("heartbeat-interval", &r.heartbeat_interval, "5s", "Told to agents.").range(10 * ns_per_ms, ns_per_hour);
  t.add("unhealthy-after", &r.unhealthy_after, "15s",
        "An agent without heartbeat for this long gets no requests.").range(20 * ns_per_ms, ns_per_day);
  t.add("remove-after", &r.remove_after, "30s",
        "An agent without heartbeat for this long is removed.").range(30 * ns_per_ms, 7 * ns_per_day);
  t.add("probation-after", &r.probation_after, "3",
        "After so many failed requests in a row an agent gets one at a time until one succeeds; while others serve, only a probe after "
        "250 ms, then after twice as long each time up to 8 s. 0 = never.").range(0, 1'000'000);
  t.add("slow-start", &r.slow_start, "0s",
        "How long an agent that has just registered takes from one slot to its whole capacity; 0 = it has that at once.").range(0, ns_per_hour);
  t.add("session-ttl", &r.session_ttl, "1h",
        "Agents prove the secret again before this has passed; more than 5m.").range(0, 30 * ns_per_day);
  t.add("policy-file", &r.policy_file, "",
        "Routing policy for all models; empty = the agent with the lowest load, no gates, no fallback. Read again on SIGHUP.").shown_as("PATH");
  t.add("policy-model-dir", &r.policy_model_dir, "",
        "Folder of policy documents: _default.yaml for all models, NAME.yaml for those that it lists; read again on SIGHUP.").shown_as("PATH");
  t.add("strict-policy", &r.strict_policy, "",
        "An unknown key in a policy, and a document that must be left out, is an error instead of a warning.");
  t.add("policy-store", &r.policy_store, "true",
        "Whether policies written through /admin/policy are kept in the storage and rule again after a restart.");
  t.add("expose-routing", &r.expose_routing, "",
        "Answers say who served them: X-Hivenet-Agent, -Step, -Attempts and -Queue-Ms.");

  t.add("explain-requests", &r.explain_requests, "1000",
        "Ended requests that POST /admin/explain can be asked about by their id; no text is kept.").range(0, 1'000'000);

  t.section("Storage and plugins");
  t.add("storage", &r.storage, "lmdb", "Id of the storage component.").check(not_empty).shown_as("ID");
  t.add("transport", &r.transport, "zmq", "Id of the transport component of the link.").check(not_empty).shown_as("ID");
  t.add("plugin-dir", &r.plugins.dirs, "",
        "Folder with plugins; without any, the program's own.").repeatable().at_key("plugins.dirs").shown_as("PATH");
  t.add("disk-db-path", &r.disk_db_path, "./hivenet_disk",
        "Folder of the database; created if missing.").check(not_empty).shown_as("PATH");
  t.add("disk-db-ttl", &r.disk_db_ttl_days, "30",
        "Days that an agent's history is kept; 0 = for ever.").range(0, 36500);
  t.add("universal-flush-interval", &r.flush_interval, "30s", "Period of the history flush.").range(100 * ns_per_ms, ns_per_day);
  t.add("reset-disk-db", &r.reset_disk_db, "",
        "Has the storage erase its database once it has the lock on it; refused by one without an option `reset`.").no_env().no_file();
}

void add_security(table &t, router_settings &r) {
  t.section("Security");
  add_link_secret_rows(t, r.secret_sources, "agents");
  t.add("identity-path", &r.identity_path, "",
        "Ed25519 key file of the router, made with mode 0600 if missing; agents name its id with --router-id. Empty = the router's key "
        "is derived from the shared secret.").shown_as("PATH");
  t.add("revoked-agents-file", &r.revoked_agents_file, "",
        "Peer ids of agents that get no link, one a line, beside those revoked through /admin; read again on SIGHUP.").shown_as("PATH");
  t.add("agents-file", &r.agents_file, "",
        "Peer ids of the agents that may register, one a line, each with the ids of the models that it may serve behind it, all if there "
        "is none; read again on SIGHUP. Empty = whoever has the secret.").shown_as("PATH");
  t.add("admin-api-keys", &r.written.admin_keys, "",
        "Keys that open /admin, at least 16 bytes each; ro:KEY may only read. Without any key /admin answers 401.").no_flag().secret();
  t.add("admin-api-keys-file", &r.admin_keys_file, "",
        "File with more admin keys, one a line, of the same form; read again on SIGHUP.").shown_as("PATH");
  t.add("allow-insecure-admin", &r.allow_insecure_admin, "", "Opens /admin without a key.").no_flag();
  t.add("auth-config-file", &r.auth_config_file, "",
        "auth.yaml: client keys and who owns them; read again on SIGHUP. Without it everybody may use the client API.").also_env(
        "HIVENET_ROUTER_AUTH_CONFIG").shown_as("PATH");
  t.add("auth-mode", &r.written.auth_mode, "none",
        "Client authentication when there is no auth.yaml: none, or dynamic (keys come through /admin/api-keys).").no_flag();
  t.add("strict-auth", &r.strict_auth, "",
        "What auth.yaml is else warned about is an error: unknown keys, keys that nobody is asked for, a preview that is the key, unequal "
        "limits that an owner's keys share. A key that has expired stays a warning.");
  t.add("key-store", &r.key_store, "true",
        "Whether keys written through /admin/api-keys are kept in the storage, as hashes, and open again after a restart.");
  t.add("strict-key-versions", &r.strict_key_versions, "",
        "A write to /admin/api-keys that changes something under the version that holds already is 409 instead of taken.");
  t.add("auth-failures-per-minute", &r.auth_failures, "100",
        "Failed authentications that one address (IPv6: one /64) may make, at once and then a minute, with client and admin keys; beyond "
        "it 429 whatever the key. Loopback is not counted. 0 = no limit.").range(0, 1'000'000);
  t.add("models-show-agents", &r.models_show_agents, "true",
        "Whether GET /v1/models/ID lists the model's agents with their machines.");
  t.add("trusted-proxies", &r.trusted_proxies, "",
        "Addresses and CIDR ranges whose X-Forwarded-For and X-Real-IP are believed.").check(is_network).shown_as("LIST");
}

status is_base_url(const std::string &text) { return parse_base_url(text).why(); }

void add_providers(table &t, router_settings &r) {
  t.section("Providers");
  t.add("openai-api-key", &r.openai_key, "", "Key for policies whose fallback_provider is openai; read at the start only.").no_flag().no_file().secret();
  t.add("anthropic-api-key", &r.anthropic_key, "", "Key for policies whose fallback_provider is anthropic; read at the start only.")
      .no_flag().no_file().secret();
  t.add("openai-base-url", &r.openai_url, "https://api.openai.com", "Where openai is; with http:// its key is sent in the clear.")
      .check(is_base_url).shown_as("URL");
  t.add("anthropic-base-url", &r.anthropic_url, "https://api.anthropic.com", "Where anthropic is; with http:// its key is sent in the clear.")
      .check(is_base_url).shown_as("URL");
  t.add("provider-ca-file", &r.provider_ca_file, "",
        "Certificate authorities (PEM) that providers are verified by, instead of the system's.").shown_as("PATH");
}

void add_audit(table &t, router_settings &r) {
  t.section("Audit");
  t.add("audit-log-path", &r.audit_log_path, "/var/log/hivenet-router/audit.jsonl",
        "One JSON line a request. off = none; - = stdout, as when the file cannot be opened.").shown_as("PATH");
  t.add("audit-zone", &r.audit_zone, "Europe/Rome", "Time zone of the field ts.").check(not_empty).shown_as("NAME");
  t.add("audit-queue-bytes", &r.audit_queue, "4194304",
        "Lines that may wait for the writer; what happens beyond, --audit-overflow says.").range(64 << 10, 1ULL << 30);
  t.add("audit-overflow", &r.audit_overflow, "drop",
        "A line for which there is no room is dropped and counted (drop), or its worker waits for room, and every request with it (block).")
      .choices({"drop", "block"});
  t.add("audit-block-limit", &r.audit_block_limit, "10s",
        "Longest wait of --audit-overflow block; then lines are dropped until the file has taken something.").range(ns_per_ms, ns_per_hour);
  t.add("audit-required", &r.audit_required, "", "Refuses to start without its file, instead of writing to stdout.");
}

void resolve_link(const table &t, router_settings &r, std::vector<status> &problems, std::vector<std::string> &warnings) {
  auto &w = r.written;
  r.secrets.clear();
  if (auto read = read_link_secrets(r.secret_sources); !read) {
    problems.push_back(read.why());
  } else if (!read->empty()) {
    r.secrets = *std::move(read);
    for (std::string &each : judge_secret_files(r.secret_sources)) warnings.push_back(std::move(each));
  } else {
    for (const char *name : {"link-listen", "grpc-port", "p2p-listen-addr"})
      if (const setting *row = t.find(name); row->from != origin::built_in) {
        problems.push_back(fail(errc::invalid, "agents may connect only with a shared secret; set --jwt-secret-file or HIVENET_ROUTER_JWT_SECRET",
                                row->source));
        break;
      }
    if (r.embedded_agents.empty()) warnings.push_back("no shared secret, so no agent can connect; set --jwt-secret-file or HIVENET_ROUTER_JWT_SECRET");
  }
  r.link_enabled = !r.secrets.empty();
  if (t.origin_of("link-listen") != origin::built_in) r.link_listen = w.link_listen;
  else r.link_listen = {w.grpc_port.host.empty() ? w.p2p_listen_addr : w.grpc_port.host, w.grpc_port.port};
  if (r.link_listen.port != 0 && r.link_listen.port + r.workers - 1 > 65535)
    problems.push_back(fail(errc::invalid, "worker i listens on port + i, and " + std::to_string(r.link_listen.port) +
                                           " + " + std::to_string(r.workers - 1) + " is over 65535", "link-listen"));
  if (!w.p2p_announce_addr.empty())
    if (auto host = parse_announce(w.p2p_announce_addr)) r.announce_host = *std::move(host);
}

// What auth.yaml says is the router's to read; without one nobody is asked for a key.
void resolve_auth(const table &t, router_settings &r, std::vector<status> &problems, std::vector<std::string> &warnings) {
  r.http_given = t.origin_of("http-port") != origin::built_in;
  for (const std::string &file : {r.auth_config_file, r.admin_keys_file, r.agents_file, r.revoked_agents_file}) {
    if (!everybody_may(file, S_IWOTH)) continue;
    const std::string words = file + ": everybody on this machine can write it, and so let themselves in; run chmod o-w on it";
    if (r.strict_auth) problems.push_back(fail(errc::invalid, words));
    else warnings.push_back(words);
  }
  if (everybody_may(r.admin_keys_file, S_IROTH))
    warnings.push_back(r.admin_keys_file + ": everybody on this machine can read the admin keys; run chmod o-r on it");
  const std::string &mode = r.written.auth_mode;
  const bool none = mode.empty() || mode == "none";
  if (!r.auth_config_file.empty()) {
    if (!none) warnings.push_back(t.find("auth-mode")->source + " is not used: " + r.auth_config_file + " says the mode");
    return;
  }
  if (mode == "api-key")
    problems.push_back(fail(errc::invalid, "api-key needs keys; set --auth-config-file", t.find("auth-mode")->source));
  else if (!none && mode != "dynamic")
    problems.push_back(fail(errc::invalid, "\"" + mode + "\" is no mode; use none, dynamic, or api-key with --auth-config-file", t.find("auth-mode")->source));
  r.dynamic_keys = mode == "dynamic";
  if (!r.http_given && !r.dynamic_keys) r.http.host = "127.0.0.1";
}

void resolve_admin(router_settings &r, std::vector<status> &problems, std::vector<std::string> &warnings) {
  auto &written = r.written.admin_keys;
  admin_keys_read given = hash_admin_keys(written, "HIVENET_ROUTER_ADMIN_API_KEYS");
  admin_keys_read all = join_admin_keys(given.keys, r.admin_keys_file, r.secrets);
  for (admin_keys_read *part : {&given, &all}) {
    problems.insert(problems.end(), part->problems.begin(), part->problems.end());
    warnings.insert(warnings.end(), part->warnings.begin(), part->warnings.end());
  }
  r.given_admin_keys = std::move(given.keys);
  r.admin_keys = std::move(all.keys);
  if (r.admin_keys.empty())
    warnings.push_back(r.allow_insecure_admin ? "/admin is open to everybody who reaches it (HIVENET_ROUTER_ALLOW_INSECURE_ADMIN)"
                                              : "no admin key, so /admin answers 401; set HIVENET_ROUTER_ADMIN_API_KEYS or --admin-api-keys-file");
}

// A key goes into a header line as it is.
void resolve_providers(router_settings &r, std::vector<status> &problems, std::vector<std::string> &warnings) {
  struct provider {
    std::string &key;
    const std::string &url;
    const char *variable;
  };
  for (const provider &p : {provider{r.openai_key, r.openai_url, "HIVENET_ROUTER_OPENAI_API_KEY"},
                            provider{r.anthropic_key, r.anthropic_url, "HIVENET_ROUTER_ANTHROPIC_API_KEY"}}) {
    if (p.key.empty()) continue;
    auto clean = clean_secret(p.key, p.variable, 1);
    if (clean) p.key = *std::move(clean);
    else problems.push_back(clean.why());
    if (p.url.starts_with("http://") && !is_loopback(host_of_url(p.url)))
      warnings.push_back(p.url + ": the key of " + p.variable + " goes there in the clear; write https://");
  }
}

}  // namespace

int64_t default_workers(unsigned cores) { return cores <= 2 ? 1 : std::min<int64_t>(4, cores / 2); }

void add_rows(table &t, router_settings &r) {
  add_addresses(t, r);
  add_edge_rows(t, r.edge);
  add_limits(t, r);
  add_admission_rows(t, r);
  add_quota_rows(t, r);
  add_backends(t, r);
  add_fleet(t, r);
  add_security(t, r);
  add_audit(t, r);
  add_providers(t, r);
}

void finish(const table &t, router_settings &r, std::vector<status> &problems, std::vector<std::string> &warnings,
            const std::string &program_version) {
  if (r.workers == 0) r.workers = default_workers(std::thread::hardware_concurrency());
  resolve_auth(t, r, problems, warnings);
  resolve_admission(r);
  r.retry_budget = share_of(r.written.retry_budget).value_or(r.retry_budget);
  if (r.audit_log_path == "off") {
    r.audit_log_path.clear();
    if (r.audit_required) problems.push_back(fail(errc::invalid, "off, and --audit-required wants a file; leave one of the two out", "audit-log-path"));
  }
  if (t.origin_of("metrics-port") == origin::built_in) r.metrics.host = "127.0.0.1";

  r.extra_routes.clear();
  for (const std::string &text : r.written.extra_routes) {
    auto route = parse_allowed_route(text);
    if (!route) continue;  // told by its check
    const bool twice = std::any_of(r.extra_routes.begin(), r.extra_routes.end(), [&](const allowed_route &a) { return a.path == route->path; });
    if (twice) problems.push_back(fail(errc::invalid, route->path + " is given twice; remove one", t.find("allow-route")->source));
    else r.extra_routes.push_back(*std::move(route));
  }

  const auto must_be_less = [&](const char *a, const duration &less, const char *b, const duration &more) {
    if (less.ns < more.ns) return;
    problems.push_back(fail(errc::invalid, format_duration(less.ns) + " must be less than " + b + " (" + format_duration(more.ns) + ")", a));
  };
  if (r.memory_budget.bytes != 0 && r.memory_budget.bytes < r.max_request.bytes)
    problems.push_back(fail(errc::invalid, std::to_string(r.memory_budget.bytes) + " bytes must not be less than max-request-bytes (" +
                                               std::to_string(r.max_request.bytes) + "): such a request could never be taken", "memory-budget"));
  must_be_less("heartbeat-interval", r.heartbeat_interval, "unhealthy-after", r.unhealthy_after);
  must_be_less("unhealthy-after", r.unhealthy_after, "remove-after", r.remove_after);
  if (r.session_ttl.ns <= 300 * ns_per_s)
    problems.push_back(fail(errc::invalid, format_duration(r.session_ttl.ns) + " is too short; it must be more than 5m", "session-ttl"));
  finish_embedded_agents(r.written.backends, program_version, r.embedded_agents, problems);
  for (embedded_agent &each : r.embedded_agents) each.settings.extra_routes = r.extra_routes;
  resolve_edge(t, r, problems, warnings);
  resolve_link(t, r, problems, warnings);
  resolve_admin(r, problems, warnings);
  resolve_providers(r, problems, warnings);
}

}  // namespace hive::config
