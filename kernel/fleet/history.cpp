#include "fleet/history.hpp"

#include <algorithm>
#include <boost/json.hpp>

#include "fleet/pool.hpp"

namespace hive::fleet {
namespace {

namespace json = boost::json;

constexpr std::string_view key_prefix = "universalHistory:";
constexpr size_t batch = 1000;  // records a transaction

struct counter_field {
  const char *name;
  uint64_t history_record::*stored;
  std::atomic<uint64_t> agent_counters::*live;
};
constexpr counter_field counter_fields[] = {
    {"successful_requests", &history_record::successful, &agent_counters::successful},
    {"failed_requests", &history_record::failed, &agent_counters::failed},
    {"input_tokens", &history_record::input_tokens, &agent_counters::input_tokens},
    {"output_tokens", &history_record::output_tokens, &agent_counters::output_tokens},
    {"total_disconnections", &history_record::disconnections, &agent_counters::disconnections},
    {"agent_failures", &history_record::agent_failures, &agent_counters::agent_failures},
    {"backend_failures", &history_record::backend_failures, &agent_counters::backend_failures},
};

double number_at(const json::object &from, std::string_view name) {
  const json::value *v = from.if_contains(name);
  if (v == nullptr) return 0;
  boost::system::error_code error;
  const double n = v->to_number<double>(error);
  return error ? 0 : n;
}

history_record record_of(const agent &a) {
  history_record r;
  for (const counter_field &f : counter_fields) r.*f.stored = (a.counters.*f.live).load(std::memory_order_relaxed);
  r.latency = a.latency.value();
  return r;
}

void refresh_columns(const agent &a) {
  const auto pools = a.pools();  // kept through the loop
  for (const std::shared_ptr<pool> &p : *pools) p->refresh_outcome(a);
}

}  // namespace

std::string history_key(std::string_view peer_id) { return std::string(key_prefix).append(peer_id); }

std::string to_json(const history_record &r) {
  json::object o;
  for (const counter_field &f : counter_fields) o[f.name] = r.*f.stored;
  const uint64_t all = r.successful + r.failed;
  o["success_rate"] = all > 0 ? static_cast<double>(r.successful) / static_cast<double>(all) : 0.0;
  o["srtt_ms"] = r.latency ? r.latency->srtt_ms : 0.0;
  o["rttvar_ms"] = r.latency ? r.latency->rttvar_ms : 0.0;
  return json::serialize(o);
}

std::optional<history_record> parse_history(std::string_view text) {
  boost::system::error_code error;
  const json::value root = json::parse(json::string_view(text.data(), text.size()), error);
  if (error || !root.is_object()) return std::nullopt;
  const json::object &from = root.get_object();
  history_record r;
  for (const counter_field &f : counter_fields) {
    const json::value *v = from.if_contains(f.name);
    if (v == nullptr) continue;
    const uint64_t n = v->to_number<uint64_t>(error);
    if (error) return std::nullopt;
    r.*f.stored = n;
  }
  const latency_value latency{number_at(from, "srtt_ms"), number_at(from, "rttvar_ms")};
  if (latency.srtt_ms > 0) r.latency = latency;
  return r;
}

history::history(storage_thread &storage, const clock_source &clock, const history_settings &settings)
    : storage_(storage), clock_(clock), settings_(settings) {}

bool history::learn(storage_client &client, agent &a) {
  const result<std::optional<std::string>> found = client.get(history_key(a.peer_id()));
  if (!found) {
    stats_.read_errors.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  a.history_known.store(true, std::memory_order_release);
  if (!*found) return true;
  const std::optional<history_record> r = parse_history(**found);
  if (!r) {
    stats_.corrupt.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  for (const counter_field &f : counter_fields) (a.counters.*f.live).fetch_add((*r).*f.stored, std::memory_order_relaxed);
  if (r->latency && !a.latency.value()) a.latency.restore(*r->latency);
  stats_.warm_starts.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void history::warm_start(std::shared_ptr<agent> who, std::function<void()> done) {
  const bool posted = storage_.post([this, who, done](storage_client &client) {
    learn(client, *who);
    done();
  });
  if (!posted) done();
}

void history::write(storage_client &client, const std::vector<std::shared_ptr<agent>> &agents) {
  std::vector<stored_write> ops;
  std::vector<const std::shared_ptr<agent> *> taken;
  const uint64_t expires = settings_.ttl_ms == 0 ? 0 : clock_.wall_ms() + settings_.ttl_ms;
  for (const std::shared_ptr<agent> &a : agents) {
    if (!a->dirty.exchange(false, std::memory_order_acq_rel)) continue;
    if (!a->history_known.load(std::memory_order_acquire)) {
      if (!learn(client, *a)) {
        a->dirty.store(true, std::memory_order_release);
        continue;
      }
      refresh_columns(*a);
    }
    ops.push_back({history_key(a->peer_id()), to_json(record_of(*a)), expires, false});
    taken.push_back(&a);
  }
  if (ops.empty()) return;
  if (const status s = client.write(ops); !s) {
    stats_.write_errors.fetch_add(1, std::memory_order_relaxed);
    stats_.failing.store(true, std::memory_order_relaxed);
    for (const std::shared_ptr<agent> *a : taken) (*a)->dirty.store(true, std::memory_order_release);
    return;
  }
  stats_.failing.store(false, std::memory_order_relaxed);
  stats_.records_written.fetch_add(ops.size(), std::memory_order_relaxed);
}

void history::flush(std::vector<std::shared_ptr<agent>> agents) {
  std::erase_if(agents, [](const std::shared_ptr<agent> &a) { return !a->dirty.load(std::memory_order_acquire); });
  if (agents.empty()) return;
  storage_.post([this, agents = std::move(agents)](storage_client &client) {
    stats_.flushes.fetch_add(1, std::memory_order_relaxed);
    for (size_t from = 0; from < agents.size(); from += batch) {
      const size_t to = std::min(agents.size(), from + batch);
      write(client, {agents.begin() + static_cast<ptrdiff_t>(from), agents.begin() + static_cast<ptrdiff_t>(to)});
    }
  });
}

void history::reset(std::function<std::vector<std::shared_ptr<agent>>()> agents, std::function<void(status)> done) {
  const bool posted = storage_.post([agents, done](storage_client &client) {
    std::vector<stored_write> erase;
    status s = client.scan(key_prefix, [&](std::string_view key, std::string_view) {
      erase.push_back({std::string(key), {}, 0, true});
      return true;
    });
    if (s && !erase.empty()) s = client.write(erase);
    if (!s) return done(s);
    for (const std::shared_ptr<agent> &a : agents()) {
      for (const counter_field &f : counter_fields) (a->counters.*f.live).store(0, std::memory_order_relaxed);
      a->counters.rejected.store(0, std::memory_order_relaxed);
      a->counters.streak.store(0, std::memory_order_relaxed);
      a->latency.reset();
      a->recent.reset();
      a->dirty.store(false, std::memory_order_release);
      a->history_known.store(true, std::memory_order_release);
      refresh_columns(*a);
    }
    done({});
  });
  if (!posted) done(fail(errc::exhausted, "the storage thread's line is full, or it has stopped", "storage"));
}

}  // namespace hive::fleet
