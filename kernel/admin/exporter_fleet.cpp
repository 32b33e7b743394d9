// The families that are read at scrape time: per agent, per line, per link.
#include <optional>
#include <utility>

#include "admin/exporter.hpp"
#include "base/clock.hpp"

namespace hive::admin {

namespace {

using observe::metric_kind;

// One agent with its two label texts, made once a scrape.
struct shown_agent {
  std::shared_ptr<fleet::agent> who;
  std::shared_ptr<const fleet::agent_info> info;
  std::string labels, labels_with_capacity;
};

struct agent_family {
  metric_kind kind;
  const char *name;
  const char *help;
  bool with_capacity;                                           // of labels_with_capacity, else of labels
  std::optional<double> (*value)(const shown_agent &);
};

double loaded(const std::atomic<uint64_t> &v) { return static_cast<double>(v.load(std::memory_order_relaxed)); }

using reading = std::optional<double>;
constexpr agent_family families[] = {
    {metric_kind::gauge, "routing_agent_info", "A registered agent; always 1", true, [](const shown_agent &) -> reading { return 1; }},
    {metric_kind::gauge, "routing_agent_healthy", "1 = linked, heard of lately, with an engine that answers", true,
     [](const shown_agent &a) -> reading { return a.who->healthy() ? 1 : 0; }},
    {metric_kind::gauge, "routing_agent_last_seen_timestamp", "Last heartbeat, Unix milliseconds", true,
     [](const shown_agent &a) -> reading { return loaded(a.who->last_seen_unix_ms); }},
    {metric_kind::counter, "agent_requests_success_total", "Attempts answered", false,
     [](const shown_agent &a) -> reading { return loaded(a.who->counters.successful); }},
    {metric_kind::counter, "agent_requests_failed_total", "Attempts failed", false,
     [](const shown_agent &a) -> reading { return loaded(a.who->counters.failed); }},
    {metric_kind::gauge, "agent_success_rate", "Lifetime share of answered attempts; 0 without any", false,
     [](const shown_agent &a) -> reading { return std::isnan(a.who->counters.success_rate()) ? 0 : a.who->counters.success_rate(); }},
    {metric_kind::gauge, "agent_success_rate_5m", "Share of answered attempts of the last 5 minutes; no series without any", false,
     [](const shown_agent &a) -> reading { return a.who->recent.rate(now_ns()); }},
    {metric_kind::gauge, "agent_on_probation", "1 = failed again and again: one request at a time until one succeeds", false,
     [](const shown_agent &a) -> reading { return a.who->on_probation() ? 1 : 0; }},
    {metric_kind::gauge, "agent_capacity_utilization", "Slots in use over declared capacity", false,
     [](const shown_agent &a) -> reading {
       return a.info->capacity == 0 ? 0 : static_cast<double>(a.who->slots.load().first) / a.info->capacity;
     }},
    {metric_kind::gauge, "agent_active_requests", "Slots in use", false,
     [](const shown_agent &a) -> reading { return a.who->slots.load().first; }},
    {metric_kind::counter, "agent_input_tokens_total", "Prompt tokens of answered attempts", false,
     [](const shown_agent &a) -> reading { return loaded(a.who->counters.input_tokens); }},
    {metric_kind::counter, "agent_output_tokens_total", "Output tokens of answered attempts", false,
     [](const shown_agent &a) -> reading { return loaded(a.who->counters.output_tokens); }},
    {metric_kind::counter, "agent_rejected_requests_total", "Slots refused at selection", false,
     [](const shown_agent &a) -> reading { return loaded(a.who->counters.rejected); }},
    {metric_kind::counter, "agent_disconnections_total", "Removals of the agent", false,
     [](const shown_agent &a) -> reading { return loaded(a.who->counters.disconnections); }},
    {metric_kind::counter, "agent_failure_total", "Times its heartbeats stopped", false,
     [](const shown_agent &a) -> reading { return loaded(a.who->counters.agent_failures); }},
    {metric_kind::counter, "model_backend_failure_total", "Times its engine became unhealthy", false,
     [](const shown_agent &a) -> reading { return loaded(a.who->counters.backend_failures); }},
    {metric_kind::gauge, "agent_srtt_ms", "Smoothed time to response headers", false,
     [](const shown_agent &a) -> reading { const auto v = a.who->latency.value(); return v ? reading(v->srtt_ms) : std::nullopt; }},
    {metric_kind::gauge, "agent_rttvar_ms", "Its mean deviation", false,
     [](const shown_agent &a) -> reading { const auto v = a.who->latency.value(); return v ? reading(v->rttvar_ms) : std::nullopt; }},
};

// Column name -> series name.
constexpr std::pair<const char *, const char *> engine_series[] = {
    {"kv_cache_utilization", "agent_engine_kv_cache_utilization"}, {"running_requests", "agent_engine_running_requests"},
    {"waiting_requests", "agent_engine_waiting_requests"},         {"avg_ttft_seconds", "agent_engine_avg_ttft_seconds"},
    {"p90_ttft_seconds", "agent_engine_p90_ttft_seconds"},         {"avg_itl_seconds", "agent_engine_avg_itl_seconds"},
    {"p90_itl_seconds", "agent_engine_p90_itl_seconds"},           {"p50_ttft_seconds", "agent_engine_p50_ttft_seconds"},
    {"p99_ttft_seconds", "agent_engine_p99_ttft_seconds"},         {"p50_itl_seconds", "agent_engine_p50_itl_seconds"},
    {"p99_itl_seconds", "agent_engine_p99_itl_seconds"},           {"lifetime_avg_ttft_seconds", "agent_engine_lifetime_avg_ttft_seconds"},
    {"lifetime_p90_ttft_seconds", "agent_engine_lifetime_p90_ttft_seconds"},
    {"lifetime_avg_itl_seconds", "agent_engine_lifetime_avg_itl_seconds"},
    {"lifetime_p90_itl_seconds", "agent_engine_lifetime_p90_itl_seconds"},
    {"predicted_tokens_per_second", "agent_engine_predicted_tps"},
    {"prompt_tokens_per_second", "agent_engine_prompt_tps"}};

}  // namespace

void exporter::collect_agents(observe::exposition &out) const {
  std::vector<shown_agent> agents;
  const auto snapshot = on_.fleet->snapshot();
  agents.reserve(snapshot->agents.size());
  for (const auto &who : snapshot->agents) {
    shown_agent a{who, who->info(), {}, {}};
    const std::string model = a.info->models.empty() ? std::string() : a.info->models.front();
    a.labels = observe::label_text({"peer_id", "model", "engine", "organization", "machine"},
                                   {who->peer_id(), model, a.info->engine, a.info->organization, a.info->machine});
    a.labels_with_capacity = observe::label_text({"peer_id", "region", "engine", "model", "capacity", "organization", "machine"},
                                                 {who->peer_id(), a.info->region, a.info->engine, model, std::to_string(a.info->capacity),
                                                  a.info->organization, a.info->machine});
    agents.push_back(std::move(a));
  }
  for (const agent_family &f : families) {
    out.family(f.kind, f.name, f.help);
    for (const shown_agent &a : agents)
      if (const auto v = f.value(a)) out.series(f.with_capacity ? a.labels_with_capacity : a.labels, *v);
  }

  std::vector<std::vector<fleet::column_value>> signals;
  signals.reserve(agents.size());
  for (const shown_agent &a : agents) signals.push_back(on_.fleet->signals_of(*a.who));
  for (const auto &[column, name] : engine_series) {
    const hive_column id = on_.fleet->columns().find(column);
    if (id == 0) continue;
    out.family(metric_kind::gauge, name, "As the engine's own page said last");
    for (size_t i = 0; i < agents.size(); ++i)
      for (const fleet::column_value &v : signals[i])
        if (v.id == id) out.series(agents[i].labels, v.value);
  }

  const fleet::registry_stats &stats = on_.fleet->stats();
  const std::pair<const char *, const std::atomic<uint64_t> *> totals[] = {
      {"fleet_registrations_refused_total", &stats.refused_registrations}, {"fleet_duplicates_refused_total", &stats.duplicates_refused},
      {"fleet_takeovers_total", &stats.takeovers},                         {"fleet_signal_names_refused_total", &stats.refused_signal_names},
      {"fleet_signals_expired_total", &stats.expired_signals},             {"fleet_outcomes_dropped_total", &stats.dropped_outcomes}};
  for (const auto &[name, counter] : totals) {
    out.family(metric_kind::counter, name, "Counted by the fleet's registry");
    out.series({}, counter->load(std::memory_order_relaxed));
  }
}

void exporter::collect_lines(observe::exposition &out) const {
  out.family(metric_kind::gauge, "queue_depth", "Requests in the capacity queue");
  const auto lines = on_.router->lines();
  for (const auto &line : lines) out.series(observe::label_text({"model"}, {line.model}), line.stats.depth);
  out.family(metric_kind::counter, "queue_refused_total", "Requests that found the capacity queue full");
  for (const auto &line : lines) out.series(observe::label_text({"model"}, {line.model}), line.stats.refused_full);
  out.family(metric_kind::counter, "queue_refused_late_total", "Requests whose time would have passed in the capacity queue");
  for (const auto &line : lines) out.series(observe::label_text({"model"}, {line.model}), line.stats.refused_late);
  out.family(metric_kind::counter, "retries_refused_total", "Requests that were not tried again because their model's retry budget was in use");
  for (const auto &line : lines) out.series(observe::label_text({"model"}, {line.model}), line.retries_refused);
  out.family(metric_kind::gauge, "policy_unpublished_columns", "Columns that a policy reads and no agent of the model has published for a minute");
  out.series({}, static_cast<uint64_t>(on_.router->unpublished().size()));
  if (on_.forwards != nullptr) {
    out.family(metric_kind::gauge, "forward_slots_in_use", "Forwards under way");
    out.series({}, static_cast<uint64_t>(on_.forwards->in_use()));
    out.family(metric_kind::gauge, "forward_slots_limit", "--max-concurrent");
    out.series({}, static_cast<uint64_t>(on_.forwards->slots()));
    out.family(metric_kind::gauge, "request_queue_length", "Requests that wait for a forward slot");
    out.series({}, static_cast<uint64_t>(on_.forwards->waiting()));
  }
  if (on_.stages != nullptr) {
    out.family(metric_kind::gauge, "requests_in_stage", "Requests by what they are doing");
    const std::pair<const char *, const std::atomic<int64_t> *> stages[] = {{"reading_body", &on_.stages->reading_body},
                                                                            {"selecting", &on_.stages->selecting},
                                                                            {"forwarding", &on_.stages->forwarding},
                                                                            {"streaming", &on_.stages->streaming}};
    for (const auto &[stage, count] : stages)
      out.series(observe::label_text({"stage"}, {stage}), static_cast<double>(count->load(std::memory_order_relaxed)));
  }
}

void exporter::collect_links(observe::exposition &out) const {
  struct family {
    metric_kind kind;
    const char *name, *help;
    uint64_t (*value)(const link::hub_counters &);
  };
  static constexpr family each_worker[] = {
      {metric_kind::gauge, "link_links", "Welcomed agent connections",
       [](const link::hub_counters &c) -> uint64_t { return c.links_open; }},
      {metric_kind::counter, "link_links_welcomed_total", "Agent connections welcomed",
       [](const link::hub_counters &c) -> uint64_t { return c.links_welcomed; }},
      {metric_kind::counter, "link_links_lost_total", "Welcomed connections that ended without a goodbye",
       [](const link::hub_counters &c) -> uint64_t { return c.links_lost; }},
      {metric_kind::counter, "link_kicked_total", "Connections ended by the router", [](const link::hub_counters &c) -> uint64_t { return c.kicked; }},
      {metric_kind::counter, "link_auth_failures_total", "Connections that failed to prove their identity or the secret",
       [](const link::hub_counters &c) -> uint64_t { return c.auth_failures; }},
      {metric_kind::counter, "link_renewals_total", "Sessions renewed on a live link", [](const link::hub_counters &c) -> uint64_t { return c.renewals; }},
      {metric_kind::counter, "link_streams_opened_total", "Streams opened to agents", [](const link::hub_counters &c) -> uint64_t { return c.streams_opened; }},
      {metric_kind::gauge, "link_streams_open", "Streams under way", [](const link::hub_counters &c) -> uint64_t { return c.streams_open; }},
      {metric_kind::gauge, "link_streams_closing", "Of them cancelled and not yet ended by the agent",
       [](const link::hub_counters &c) -> uint64_t { return c.streams_closing; }},
      {metric_kind::counter, "link_late_records_total", "Records of streams that were over",
       [](const link::hub_counters &c) -> uint64_t { return c.late_records; }},
      {metric_kind::counter, "link_protocol_errors_total", "Records that broke the protocol",
       [](const link::hub_counters &c) -> uint64_t { return c.protocol_errors; }}};
  for (const family &f : each_worker) {
    out.family(f.kind, f.name, f.help);
    for (size_t w = 0; w < on_.links.size(); ++w)
      out.series(observe::label_text({"worker"}, {std::to_string(w)}), f.value(*on_.links[w]));
  }
  out.family(metric_kind::counter, "link_rejected_total", "Agent connections refused before they were welcomed, by reason");
  for (size_t w = 0; w < on_.links.size(); ++w)
    for (size_t i = 0; i < std::size(link::rejection_reasons); ++i)
      out.series(observe::label_text({"worker", "reason"}, {std::to_string(w), link::rejection_reasons[i]}), static_cast<uint64_t>(on_.links[w]->rejected[i]));
  static constexpr std::pair<const char *, tally link::outbox_counters::*> both_ways[] = {
      {"link_records_total", &link::outbox_counters::records},
      {"link_frames_total", &link::outbox_counters::frames},
      {"link_bytes_total", &link::outbox_counters::bytes}};
  for (const auto &[name, count] : both_ways) {
    out.family(metric_kind::counter, name, "What went over the links of a worker; bytes of frames, before encryption");
    for (size_t w = 0; w < on_.links.size(); ++w) {
      const link::hub_counters &c = *on_.links[w];
      out.series(observe::label_text({"worker", "direction"}, {std::to_string(w), "in"}), static_cast<uint64_t>(c.in.*count));
      out.series(observe::label_text({"worker", "direction"}, {std::to_string(w), "out"}), static_cast<uint64_t>(c.out.*count));
    }
  }
}

}  // namespace hive::admin
