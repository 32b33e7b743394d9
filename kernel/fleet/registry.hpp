// Every agent the router knows, and the pools they serve: decides who owns a key, keeps records over reconnects, judges
// health, turns signals into columns. Implements what the link reports to.
//
// Any thread. One mutex guards owners and links, a second one the map of pools; both are taken before an agent's or a
// pool's lock, never after. Observers and link_control are called with no lock of the registry held.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "base/text.hpp"
#include "fleet/pool.hpp"
#include "link/directory.hpp"

namespace hive::fleet {

class history;

struct registry_settings {
  uint32_t workers = 1;                              // an agent is routable with one welcomed link on each
  uint64_t unhealthy_after_ns = 15 * ns_per_s;
  uint64_t removed_after_ns = 30 * ns_per_s;
  uint64_t monitor_interval_ns = 5 * ns_per_s;
  uint64_t stale_after_ns = 10 * ns_per_s;           // of agents' signals
  uint64_t duplicate_retry_ms = 5000;
  uint32_t probation_after = 3;                      // failures in a row; 0 = never
  uint64_t slow_start_ns = 0;                        // in which a new agent gets its slots; 0 = at once
  size_t names_per_agent = 64;                       // signal names one agent may publish
  size_t models = 16384;                             // pools; what agents offer beyond it is not served
  bool operator==(const registry_settings &) const = default;
};

// What the registry asks of the hubs. Any thread; the calls only queue work for the worker's loop.
class link_control {
 public:
  virtual ~link_control() = default;
  // PING on all links of that agent on that worker; `reply` once, any thread: false = no PONG in 1 s, or no link.
  virtual void probe(uint32_t worker, std::string peer_id, std::function<void(bool alive)> reply) = 0;
  virtual void kick_link(link::link_id, std::string code, std::string message, uint64_t retry_after_ms, bool final) = 0;
};

// Why an agent is not there any more.
enum class departure {
  link_lost,  // the last link went; it may come back
  silent,     // no heartbeat for removed_after: its links are cut, so that it connects again when it can
  goodbye,    // its own word
  revoked,    // the operator's word: it may not be an agent here any more
};
std::string_view to_string(departure);  // link_lost, removed, goodbye, revoked

// What an agent is told whose links are ended by the operator.
struct disconnection {
  std::string code, message;
  uint64_t retry_after_ms = 0;
  bool for_good = false;  // it is removed at once; else it keeps its record, as after any lost link
};

// Hears of comings and goings (admin feed, metrics). May not call the registry's changing functions.
class fleet_observer {
 public:
  virtual ~fleet_observer() = default;
  virtual void on_registered(const std::shared_ptr<agent> &, bool again) { (void)again; }
  virtual void on_unregistered(const std::shared_ptr<agent> &, departure why) { (void)why; }
  // A registration, takeover or model change was refused, or an owner was replaced: words for the log.
  virtual void on_notice(std::string_view peer_id, std::string_view text) { (void)peer_id, (void)text; }
};

// Gets one call for each latency sample that counted, e.g. to write format_srtt_sample at debug level.
class sample_log {
 public:
  virtual ~sample_log() = default;
  virtual void srtt_sample(std::string_view peer_id, std::string_view request_id, double r_ms, const latency_value &after,
                           bool stream) = 0;
};
// "srtt sample peer_id=... request_id=... r_ms=... srtt_ms=... rttvar_ms=... stream=true", doubles with %.17g.
std::string format_srtt_sample(std::string_view peer_id, std::string_view request_id, double r_ms, const latency_value &after,
                               bool stream);

struct outcome_record {
  uint64_t generation = 0;          // lease::generation
  bool success = false;
  double rtt_ms = 0;                // > 0 feeds the estimator, also on failure; 0 = nothing was sent
  uint64_t input_tokens = 0;
  uint64_t output_tokens = 0;
  std::string_view request_id;
  request_kind kind = request_kind::chat;
};

struct fleet_snapshot {
  std::vector<std::shared_ptr<agent>> agents;        // by peer_id, bytewise ascending
};

struct registry_stats {
  std::atomic<uint64_t> refused_registrations{0}, duplicates_refused{0}, takeovers{0}, refused_signal_names{0},
      dropped_outcomes{0}, expired_signals{0};
};

class registry final : public link::directory {
 public:
  // All of them outlive the registry; `store`, `observer` and `samples` may be null.
  registry(const registry_settings &, const clock_source &, link_control &, history *store, fleet_observer *observer,
           sample_log *samples);
  ~registry() override;

  column_table &columns() { return columns_; }
  const column_table &columns() const { return columns_; }
  const kernel_columns &kernel() const { return kernel_; }
  const registry_settings &settings() const { return settings_; }
  const registry_stats &stats() const { return stats_; }

  std::shared_ptr<pool> find_pool(std::string_view model) const;   // null = no agent ever served it
  std::vector<std::shared_ptr<pool>> pools() const;                // by model, bytewise ascending
  std::shared_ptr<const fleet_snapshot> snapshot() const;
  std::shared_ptr<agent> find(std::string_view peer_id) const;
  // Slots taken of all agents, those included that were removed while leases were out.
  int64_t slots_taken() const;
  // Takes out a pool that no agent serves; null = there is none, or it has a member. An agent that serves that model later gets a new
  // pool, so sessions that hold this one may keep it.
  std::shared_ptr<pool> drop_pool(std::string_view model);
  // The stored routing facts of an agent; empty when it serves nothing.
  std::vector<column_value> signals_of(const agent &) const;

  // Counts one attempt. Dropped when the agent has been removed since the lease was made.
  void record_outcome(agent &, const outcome_record &);
  // Feeds the latency estimator alone: rtt_ms of the record.
  void record_sample(agent &, const outcome_record &);
  // Its engine answers: a stream has content. Ends a probation before the stream does.
  void record_content(agent &, uint64_t generation);

  // Call every 100 ms at the latest: coalesced re-checks, slow starts, stale sweep (1 s), health pass, history flush.
  void tick();
  // POST /admin/metrics/reset: zeroes counters and latency of all agents and wipes the stored records. `done` on any thread.
  void reset_counters(std::function<void(status)> done);
  // The operator's drain of one agent: no new work, what runs goes on, also over reconnects and restarts of the agent, until it is
  // called back or the router restarts. False: no such agent (calling back also works for one that has left). Any thread.
  bool set_operator_drain(std::string_view peer_id, bool on);
  // Ends all its links. False: it has none. Any thread.
  bool disconnect(std::string_view peer_id, const disconnection &);
  void flush_history();                                            // queues a flush of all that changed

  void authenticate(link::auth_request, std::function<void(link::auth_decision)> reply) override;
  void link_lost(link::link_id, std::string_view reason) override;
  void heartbeat(std::string_view peer_id, bool engine_ready, std::string_view reason) override;
  void signals(std::string_view peer_id, const std::vector<link::signal_value> &, std::string_view structured_json) override;
  void models(std::string_view peer_id, std::string_view metadata_json) override;
  void pong(std::string_view peer_id, const link::pong_info &, link::link_id) override;
  void refused_busy(std::string_view peer_id, const link::pong_info &) override;
  void draining(std::string_view peer_id, bool on) override;
  void goodbye(std::string_view peer_id) override;
  void expired(std::string_view peer_id, bool on) override;

 private:
  template <class V>
  using text_map = std::unordered_map<std::string, V, text_hash, std::equal_to<>>;
  struct link_hash {
    size_t operator()(const link::link_id &l) const { return std::hash<uint64_t>()(l.peer * 0x9e3779b97f4a7c15ull + l.worker); }
  };
  using reply_fn = std::function<void(link::auth_decision)>;
  using calls = deferred_calls;                      // run after mutex_ is dropped
  struct member;
  using member_ptr = std::shared_ptr<member>;

  // registry_auth.cpp; Requires: mutex_ held exclusively.
  void decide(link::auth_request, reply_fn, calls &);
  void renew(const link::auth_request &, const reply_fn &, calls &);
  void welcome_further(const link::auth_request &, const reply_fn &, calls &);
  void admit(const member_ptr &, const link::auth_request &, agent_info, reply_fn, calls &);
  void probe_owner(const member_ptr &, link::auth_request, agent_info, reply_fn, calls &);
  void on_probe(const member_ptr &, uint64_t round, bool alive);
  void take_over(const member_ptr &, calls &);
  void refuse_newcomer(member &, calls &);
  void add_link(const member_ptr &, const link::auth_request &, calls &);
  void refuse(const reply_fn &, std::string code, std::string message, uint64_t retry_after_ms, bool final, calls &);
  // registry.cpp; Requires: mutex_ held exclusively.
  member_ptr find_member(std::string_view peer_id) const;          // shared suffices
  void register_agent(member &, const std::shared_ptr<agent> &, agent_info, bool new_process, calls &);
  void apply_info(agent &, const std::shared_ptr<agent> &, agent_info, calls &);
  void remove(const member_ptr &, departure why, calls &);
  void update_linked(member &);
  void check_health(uint64_t now, calls &);
  std::shared_ptr<pool> pool_for(const std::string &model);        // null: there are as many as settings.models
  bool change_standing(agent &, uint32_t set, uint32_t clear) const;  // refreshes its pools when something changed
  void judge_streak(agent &) const;
  void grow_starters(uint64_t now);                                // takes mutex_
  void set_foreign(agent &, const link::pong_info &) const;
  void notice(std::string_view peer_id, std::string text, calls &) const;

  const registry_settings settings_;
  const clock_source &clock_;
  link_control &control_;
  history *const history_;
  fleet_observer *const observer_;
  sample_log *const samples_;
  column_table columns_;
  const kernel_columns kernel_;
  registry_stats stats_;

  mutable std::shared_mutex mutex_;
  text_map<member_ptr> members_;
  std::unordered_set<std::string, text_hash, std::equal_to<>> operator_drains_;
  std::vector<std::weak_ptr<agent>> starters_;       // of a slow start
  text_map<std::weak_ptr<agent>> departed_;          // removed, but some lease may still be out
  std::unordered_map<link::link_id, member_ptr, link_hash> links_;
  uint64_t generations_ = 0;

  mutable std::shared_mutex pools_mutex_;
  text_map<std::shared_ptr<pool>> pools_;

  mutable std::mutex snapshot_mutex_;
  mutable std::shared_ptr<const fleet_snapshot> snapshot_;         // null = must be made again
  std::atomic<uint64_t> next_sweep_ns_{0}, next_health_ns_{0}, next_flush_ns_{0};
};

}  // namespace hive::fleet
