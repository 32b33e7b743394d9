// One registered agent as the router knows it. The record outlives its links, renewals and re-registrations, and lives
// until its last lease is returned; nothing but the registry creates one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fleet/latency.hpp"
#include "fleet/recent_outcomes.hpp"

namespace hive::fleet {

// What an agent says of itself at registration. Immutable; a change is a new object.
struct agent_info {
  std::string peer_id;
  uint64_t agent_key = 0;            // see key_of
  std::vector<std::string> models;   // every id it serves, in the engine's order
  uint32_t capacity = 0;
  std::string capability = "llm";
  std::string engine;
  std::string version;
  std::string region;
  std::string organization;
  std::string machine;
  std::vector<std::string> tags;
  std::string gpu_model;
  std::string deployment_id;
  std::string replica_id;
  std::string llm_pretty_name;
  std::string llm_info;
  bool hide_llm = false;
  std::string address;               // where its link came from
};

// First 8 bytes of SHA-256(peer_id), big endian; 0 is mapped to 1.
uint64_t key_of(std::string_view peer_id);

// Count of leases and declared capacity in one word, so that a take can never see one without the other. Any thread.
class slot_word {
 public:
  explicit slot_word(uint32_t capacity = 0) : word_(static_cast<uint64_t>(capacity) << 32) {}
  bool try_take();           // count + 1 if count < capacity
  void give_back();          // count - 1; Requires: a take that was not given back
  void set_capacity(uint32_t capacity);
  std::pair<uint32_t, uint32_t> load() const;  // {count, capacity}

 private:
  std::atomic<uint64_t> word_;
};

// Why an agent is not routable. Bits of agent::standing; 0 = routable. standing_busy alone means "counts as full": the agent
// is usable, as one whose slots are all taken is (see pool_row).
enum standing : uint32_t {
  standing_unlinked = 1u << 0,      // not all its links are welcomed
  standing_silent = 1u << 1,        // no heartbeat for --unhealthy-after
  standing_engine_down = 1u << 2,   // its last heartbeat said so
  standing_draining = 1u << 3,
  standing_busy = 1u << 4,          // refused as busy; until its next PONG
  standing_removed = 1u << 5,
  standing_expired = 1u << 6,       // its session's TTL has passed without a renewal
  standing_operator_drain = 1u << 7,  // the operator wants it to run empty
  standing_gone = standing_unlinked | standing_silent | standing_removed,
};
std::string describe_standing(uint32_t bits);  // "unlinked, draining"; "routable" for 0

// Lifetime totals: persisted base plus this process. Any thread.
struct agent_counters {
  std::atomic<uint64_t> successful{0};
  std::atomic<uint64_t> failed{0};
  std::atomic<uint64_t> input_tokens{0};
  std::atomic<uint64_t> output_tokens{0};
  std::atomic<uint64_t> rejected{0};   // selections that found it full or lost its last slot
  std::atomic<uint64_t> disconnections{0};
  std::atomic<uint64_t> agent_failures{0};
  std::atomic<uint64_t> backend_failures{0};
  std::atomic<uint32_t> streak{0};   // consecutive failures, this process only

  // ok / (ok + failed); NaN when nothing was ever counted.
  double success_rate() const;
};

class pool;
using pool_list = std::vector<std::shared_ptr<pool>>;

class agent {
 public:
  agent(std::shared_ptr<const agent_info> info, uint64_t generation);

  const std::string &peer_id() const { return peer_id_; }
  uint64_t key() const { return key_; }
  uint64_t generation() const { return generation_.load(std::memory_order_relaxed); }
  std::shared_ptr<const agent_info> info() const;           // any thread
  // It failed again and again: one request at a time until one succeeds, and while others are there none before probe_at_ns.
  bool on_probation() const { return probation_.load(std::memory_order_relaxed); }
  // The registry's, whenever the streak has changed: on probation with `limit` failures in a row, 0 = never. True: that is news, and
  // its pools have to hear of it.
  bool judge_streak(uint32_t limit);
  // It came less than --slow-start ago: its slots' capacity rises from 1.
  bool starting() const { return starting_.load(std::memory_order_relaxed); }
  uint32_t standing() const { return standing_.load(std::memory_order_acquire); }
  bool routable() const { return standing() == 0; }
  // Linked, heard of lately, with an engine that answers. A busy or draining agent is healthy.
  bool healthy() const { return (standing() & (standing_gone | standing_engine_down)) == 0; }
  std::shared_ptr<const pool_list> pools() const;           // any thread; never null
  // GPU list, histograms and so on as the agent sent them last: JSON text for admin and metrics. Null before the first.
  std::shared_ptr<const std::string> structured() const;    // any thread
  // What its last heartbeat said of an engine that is down; empty while it is up.
  std::string engine_reason() const;                        // any thread
  // Outcomes of leases of this generation or an older one are dropped: the agent was removed since.
  uint64_t removed_generation() const { return removed_generation_.load(std::memory_order_acquire); }

  slot_word slots;                                           // capacity here = declared - foreign; at most 1 on probation, less while starting
  agent_counters counters;
  latency_tracker latency;                                   // SRTT, RTTVAR; its own lock
  recent_outcomes recent;                                    // of the last 5 minutes; its own lock
  std::atomic<uint64_t> last_seen_ns{0};                     // monotonic, last heartbeat
  std::atomic<uint64_t> last_seen_unix_ms{0};
  std::atomic<uint64_t> online_since_unix_ms{0};
  std::atomic<uint32_t> declared_capacity{0};                // this and the next are set by the registry, with the slots' capacity
  std::atomic<uint32_t> foreign{0};                          // slots other routers hold, from its last PONG
  std::atomic<uint64_t> probe_at_ns{0};                      // monotonic; of an agent on probation
  std::atomic<uint64_t> active_tokens{0};                    // estimate over the leases held
  std::atomic<bool> dirty{false};                            // counters or latency changed since the last flush
  std::atomic<bool> history_known{false};                    // its stored record was read, so a flush may replace it

 private:
  friend class registry;
  friend class lease;
  friend class pool;
  const std::string peer_id_;
  const uint64_t key_;
  std::atomic<uint64_t> generation_;
  std::atomic<uint32_t> standing_{standing_unlinked};
  std::atomic<uint64_t> removed_generation_{0};
  std::atomic<bool> probation_{false};                       // written with mutex_ held
  std::atomic<bool> starting_{false};                        // likewise
  mutable std::mutex mutex_;                                 // guards what follows, and the numbers of the capacity as one
  uint64_t started_ns_ = 0;                                  // of the slow start: since when, how long it lasts, how much is over
  uint64_t start_ms_ = 0, start_age_ms_ = 0;
  std::shared_ptr<const agent_info> info_;
  std::shared_ptr<const pool_list> pools_;
  std::shared_ptr<const std::string> structured_;
  std::string engine_reason_;
  std::atomic<uint32_t> next_pool_{0};                       // where the next release starts its visits

  void set_info(std::shared_ptr<const agent_info> info);
  void set_pools(std::shared_ptr<const pool_list> pools);
  void set_structured(std::shared_ptr<const std::string> json);
  void set_engine_reason(std::string_view reason);
  void set_declared(uint32_t capacity);
  bool set_foreign(uint32_t slots);                          // false: it was that before
  void start_slowly(uint64_t now_ns, uint64_t length_ns);
  bool grow(uint64_t now_ns);                                // with the time since start_slowly; true: it has more slots now
  void fit_capacity();                                       // slots' capacity := declared - foreign, within its bounds; mutex_ held
};

}  // namespace hive::fleet
