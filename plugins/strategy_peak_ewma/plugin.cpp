#include "hive/sdk/strategy.hpp"

// Sends each request where load x latency is least: an agent that answers twice as slowly gets half the load.
//
// A count of requests cannot tell a slow agent from a fast one with the same number under way, and when both are idle it
// gives them the same. Latency alone runs after whoever was fast last. Their product is the work that waits at an agent in
// time (Finagle's Peak EWMA): it evens out the time people wait, over different hardware and over an agent that goes bad.
//
// - Load is what the agent would have with this request: active / capacity, and one slot more. Idle agents so differ by their
//   latency, and a big one by its slots.
// - Latency is the router's SRTT, the time to response headers. It follows a slower agent slowly and a faster one quickly,
//   so that one that has recovered is used again soon (docs/latency.md).
// - Peak: a first token that took longer than SRTT counts at once and in full, and wears off, by half in `decay_s`. A stalled
//   engine is left after its first late answer, not after a dozen of them.
//
// An agent that was never measured counts as the fastest of the candidates: it is tried, and measured. One that is slow and
// idle is tried again when the load of the others has grown to what its latency is worth, or when its peak has worn off.

namespace {

using namespace hive::sdk;

class peak_ewma {
 public:
  static constexpr std::string_view id = "peak-ewma";
  static constexpr std::string_view summary = "the agent with the least load x latency; a late answer counts at once and wears off";
  static constexpr std::string_view schema = R"({"type": "object", "additionalProperties": false, "properties": {
    "decay_s": {"type": "number", "minimum": 0.1, "maximum": 3600, "default": 10,
                "description": "seconds in which a peak of latency loses half its weight"}}})";

  explicit peak_ewma(const setup &s)
      : load_(s.host.column("load")), capacity_(s.host.column("capacity")), srtt_(s.host.column("srtt_ms")), host_(s.host),
        decay_ns_(s.options.number("decay_s", 10) * 1e9) {}

  std::optional<uint32_t> select(const request &r, const pool &p, scores out) const {
    const auto load = p.signal(load_), capacity = p.signal(capacity_), srtt = p.signal(srtt_);
    double fastest = HUGE_VAL;
    for (const uint32_t i : p.candidates()) fastest = srtt[i] < fastest ? srtt[i] : fastest;
    if (fastest == HUGE_VAL) fastest = 1;
    return least_scored(p, r.tie_seed(), out, [&](uint32_t i) {
      const double slot = capacity[i] > 0 ? 1 / capacity[i] : 0;
      const double smooth = srtt[i] > 0 ? srtt[i] : fastest;
      const double peak = agents_.has(i) ? peak_of(agents_.at(i), r.now_ns()) : 0;
      return (load[i] + slot) * (peak > smooth ? peak : smooth);
    });
  }

  void on_outcome(const hive_outcome &o) {
    if (o.phase != HIVE_PHASE_FIRST_TOKEN || !agents_.has(o.index) || agents_.key(o.index) != o.agent_key) return;
    const uint64_t now = host_.now_ns();
    const double ms = static_cast<double>(o.since_lease_ns) / 1e6;
    agent &a = agents_.at(o.index);
    if (ms > peak_of(a, now)) a = {ms, now};
  }

  void on_pool(const pool &p) { agents_.sync(p); }

 private:
  struct agent {
    double peak_ms = 0;
    uint64_t at_ns = 0;
  };
  // Half after one decay, a third after two: a curve that costs one division instead of an exponential.
  double peak_of(const agent &a, uint64_t now_ns) const {
    const double age = now_ns > a.at_ns ? static_cast<double>(now_ns - a.at_ns) : 0;
    return a.peak_ms * decay_ns_ / (decay_ns_ + age);
  }

  hive_column load_, capacity_, srtt_;
  hive::sdk::host host_;
  double decay_ns_;
  per_agent<agent> agents_;
};

}  // namespace

HIVE_PLUGIN("strategy_peak_ewma", "1.0.0", "hivenet", "Apache-2.0", hive::sdk::strategy<peak_ewma>)
