// The families that are read at scrape time: what a router's own parts say of themselves: its HTTP servers, its storage, its plugins, memory and the audit log.
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "admin/exporter.hpp"
#include "observe/log.hpp"

namespace hive::admin {

using observe::metric_kind;

void exporter::collect_servers(observe::exposition &out) const {
  struct family {
    metric_kind kind;
    const char *name, *help;
    tally http::server_counters::*count;
  };
  static constexpr family each_worker[] = {
      {metric_kind::gauge, "http_server_connections", "Connections of clients", &http::server_counters::open},
      {metric_kind::counter, "http_server_connections_accepted_total", "Connections accepted", &http::server_counters::accepted},
      {metric_kind::counter, "http_server_accept_failures_total", "Times accepting rested because descriptors or memory ran out",
       &http::server_counters::accept_failures},
      {metric_kind::counter, "http_server_connection_limit_total", "Times accepting stopped at --max-connections", &http::server_counters::limit_reached},
      {metric_kind::counter, "http_server_heads_refused_total", "Heads that never became a request", &http::server_counters::refused_heads},
      {metric_kind::counter, "http_server_clients_gone_total", "Connections that their client ended during a request", &http::server_counters::client_gone},
      {metric_kind::counter, "http_server_clients_slow_total", "Connections given up because their client took nothing", &http::server_counters::client_slow}};
  for (const family &f : each_worker) {
    out.family(f.kind, f.name, f.help);
    for (size_t w = 0; w < on_.servers.size(); ++w)
      out.series(observe::label_text({"worker"}, {std::to_string(w)}), static_cast<uint64_t>(on_.servers[w]->*f.count));
  }
}

void exporter::collect_storage(observe::exposition &out) const {
  const auto one = [&](metric_kind kind, const char *name, const char *help, uint64_t value) {
    out.family(kind, name, help);
    out.series({}, value);
  };
  if (on_.storage != nullptr) {
    one(metric_kind::gauge, "storage_jobs", "Jobs that wait for the storage", on_.storage->waiting());
    one(metric_kind::counter, "storage_jobs_dropped_total", "Jobs refused because too many waited", on_.storage->dropped());
    one(metric_kind::counter, "storage_sweeps_failed_total", "Sweeps of expired records that failed", on_.storage->failed_sweeps());
  }
  if (on_.history == nullptr) return;
  const auto read = [](const std::atomic<uint64_t> &n) { return n.load(std::memory_order_relaxed); };
  const fleet::history_stats &h = *on_.history;
  one(metric_kind::counter, "history_flushes_total", "Times changed records of agents were written", read(h.flushes));
  one(metric_kind::counter, "history_records_written_total", "Records of agents written", read(h.records_written));
  one(metric_kind::counter, "history_write_errors_total", "Writes of records that failed; they are tried again", read(h.write_errors));
  one(metric_kind::counter, "history_read_errors_total", "Reads of records that failed; they are tried again", read(h.read_errors));
  one(metric_kind::counter, "history_corrupt_total", "Records that could not be understood", read(h.corrupt));
  one(metric_kind::counter, "history_warm_starts_total", "Agents that began with their stored record", read(h.warm_starts));
}

void exporter::collect_memory(observe::exposition &out) const {
  const byte_budget &m = *on_.memory;
  out.family(metric_kind::gauge, "memory_held_bytes", "Held for requests and answers: bodies, answers kept back, bytes not yet sent");
  out.series({}, m.held());
  out.family(metric_kind::gauge, "memory_budget_bytes", "--memory-budget; 0 = no limit");
  out.series({}, m.limit());
  out.family(metric_kind::counter, "memory_shed_total", "Requests refused because the budget was exceeded");
  out.series(observe::label_text({"phase"}, {"before_body"}), m.shed_before_body.load(std::memory_order_relaxed));
  out.series(observe::label_text({"phase"}, {"in_body"}), m.shed_in_body.load(std::memory_order_relaxed));
  if (on_.drift != nullptr) {
    out.family(metric_kind::gauge, "lease_drift", "Slots of agents that are taken and that no request holds; 0 or a bug");
    out.series({}, static_cast<double>(on_.drift->value()));
  }
  out.family(metric_kind::counter, "memory_streams_ended_total", "Slow clients given up because the budget was exceeded");
  out.series({}, m.slow_streams_ended.load(std::memory_order_relaxed));
}

void exporter::collect_log(observe::exposition &out) const {
  out.family(metric_kind::counter, "log_lines_lost_total", "Log lines that stderr did not take");
  out.series({}, observe::log_lines_lost());
}

void exporter::collect_audit(observe::exposition &out) const {
  const observe::audit_counters &c = on_.audit->counters();
  out.family(metric_kind::counter, "audit_lines_total", "Lines in the audit log");
  out.series({}, c.written.load(std::memory_order_relaxed));
  out.family(metric_kind::counter, "audit_lines_dropped_total", "Lines that are missing in the audit log");
  out.series(observe::label_text({"reason"}, {"queue_full"}), c.dropped_full.load(std::memory_order_relaxed));
  out.series(observe::label_text({"reason"}, {"stopped"}), c.dropped_stop.load(std::memory_order_relaxed));
  out.family(metric_kind::counter, "audit_blocked_total", "Lines that waited for room in the audit log's queue");
  out.series({}, c.blocked.load(std::memory_order_relaxed));
  out.family(metric_kind::counter, "audit_blocked_seconds_total", "Time that requests waited for room in the audit log's queue");
  out.series({}, static_cast<double>(c.blocked_ns.load(std::memory_order_relaxed)) / static_cast<double>(ns_per_s));
  out.family(metric_kind::counter, "audit_write_errors_total", "Writes to the audit log that failed; they are tried again");
  out.series({}, c.write_errors.load(std::memory_order_relaxed));
  out.family(metric_kind::counter, "audit_opened_total", "Times the audit log's file was opened");
  out.series({}, c.opened.load(std::memory_order_relaxed));
  out.family(metric_kind::gauge, "audit_queue_bytes", "Lines that wait for the audit log's writer");
  out.series({}, c.queued_bytes.load(std::memory_order_relaxed));
}

void exporter::collect_plugins(observe::exposition &out) const {
  out.family(metric_kind::gauge, "plugin_info", "A component of a loaded plugin; always 1");
  for (const auto &library : on_.plugins->libraries()) {
    if (library->state != plugins::library_state::loaded) continue;
    for (const auto &component : library->description.components)
      out.series(observe::label_text({"plugin", "version", "kind", "component"},
                                     {library->name, library->description.version, plugins::kind_name(component.kind), component.id}),
                 uint64_t{1});
  }
  const auto totals = on_.plugins->totals();
  const auto labels = [](const auto &who) { return observe::label_text({"kind", "component"}, {plugins::kind_name(who.first), who.second}); };
  out.family(metric_kind::counter, "plugin_calls_total", "Calls into instances of a component");
  for (const auto &[who, t] : totals) out.series(labels(who), t.calls);
  out.family(metric_kind::counter, "plugin_errors_total", "Failures and wrong answers of a component");
  for (const auto &[who, t] : totals) out.series(labels(who), t.failures + t.wrong_answers);

  // Every second power of two of nanoseconds, 256 ns to 17 s.
  constexpr size_t first = 8, step = 2;
  std::array<double, 14> bounds;
  for (size_t b = 0; b < bounds.size(); ++b) bounds[b] = std::ldexp(1e-9, static_cast<int>(first + b * step));
  out.family(metric_kind::histogram, "plugin_call_seconds", "One call in 64 into instances of a component, by its time");
  for (const auto &[who, t] : totals) {
    std::array<uint64_t, bounds.size()> cumulative{};
    uint64_t below = 0;
    for (size_t k = 0, b = 0; k < t.took.size() && b < bounds.size(); ++k) {
      below += t.took[k];
      if (k == first + b * step) cumulative[b++] = below;
    }
    out.histogram(labels(who), bounds, cumulative, static_cast<double>(t.sampled_ns) / static_cast<double>(ns_per_s), t.sampled);
  }
}

}  // namespace hive::admin
