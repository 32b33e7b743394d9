#include <string>

#include "hive/sdk/strategy.hpp"

// Keeps a session at one agent: the same key goes to the same agent for as long as that agent is among the candidates and has
// room, on every router, without anybody remembering anything.
//
// Rendezvous hashing (Thaler and Ravishankar, 1998): every agent gets a number mixed from the key and its agent_key, which is
// equal on every router and over restarts, and the least number wins. When an agent leaves, its keys alone move, each to the
// next in its own order; when one joins, it takes its share from everybody and nobody else's keys move. A ring does the same
// with a table to build and keep; for one look at every candidate, which costs less than the gates before it, there is none.
//
// Sessions are not equal. Bounded load (Mirrokni, Thorup and Zadimoghaddam, 2018) keeps a popular one from drowning its agent:
// with A requests under way and C slots in the whole fleet, an agent of c slots takes at most ceil(f x (A + 1) x c / C), with
// the load factor f above 1, and what is beyond that goes to the next agent in the key's order. The limits add up to more
// than A + 1, so that there is always one with room. A low f is even, a high one faithful. The shares of keys are equal,
// whatever the agents' sizes: it is the bound that gives a small one less.
//
// The key is the client's session, else a header, else (by choice) the tenant. A request without any goes where the load is
// least: to hash nothing would send all of them to one agent.

namespace {

using namespace hive::sdk;

// FNV-1a, and mixed, since its high bits alone are poor. Part of the contract between routers: never change it.
uint64_t hash_of(std::string_view key) noexcept {
  uint64_t h = 0xCBF29CE484222325u;
  for (const char c : key) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return mix(h);
}

class consistent_hash {
 public:
  static constexpr std::string_view id = "consistent-hash";
  static constexpr std::string_view summary = "the same agent for the same session, as long as its load stays near the mean";
  static constexpr uint32_t needs = HIVE_NEEDS_HEADERS;
  static constexpr std::string_view schema = R"({"type": "object", "additionalProperties": false, "properties": {
    "header": {"type": "string", "maxLength": 64, "default": "x-session-id",
               "description": "a header whose value is the key where the client named no session; lower case"},
    "without_session": {"enum": ["least-load", "tenant"], "default": "least-load",
                        "description": "what a request without a key does: goes where the load is least, or with its tenant"},
    "load_factor": {"type": "number", "minimum": 1, "maximum": 1000, "default": 1.25,
                    "description": "an agent takes at most so many times its share of what is under way"}}})";

  explicit consistent_hash(const setup &s)
      : active_(s.host.column("active_requests")), capacity_(s.host.column("capacity")), load_(s.host.column("load")),
        header_(s.options.text("header", "x-session-id")), by_tenant_(s.options.text("without_session", "least-load") == "tenant"),
        factor_(s.options.number("load_factor", 1.25)) {}

  std::optional<uint32_t> select(const request &r, const pool &p, scores out) const {
    const std::string_view key = key_of(r);
    if (key.empty()) {
      const auto load = p.signal(load_);
      return least_scored(p, r.tie_seed(), out, [load](uint32_t i) { return load[i]; });
    }
    const auto active = p.signal(active_), capacity = p.signal(capacity_);
    double requests = 1, slots = 0;
    for (const uint32_t i : p.candidates()) {
      if (!(capacity[i] > 0) || !(active[i] >= 0)) continue;  // no bound for what is not known
      requests += active[i];
      slots += capacity[i];
    }
    const double a_slot = slots > 0 ? factor_ * requests / slots : 0;
    const uint64_t hash = hash_of(key);
    return least_scored(p, r.tie_seed(), out, [&](uint32_t i) {
      const double place = static_cast<double>(mix(hash ^ mix(p.agent(i).agent_key)) >> 11) * 0x1p-53;
      const bool full = active[i] >= a_slot * capacity[i];  // of a whole number the same as against the limit rounded up
      return full ? 1 + place : place;
    });
  }

 private:
  std::string_view key_of(const request &r) const {
    if (!r.session().empty()) return r.session();
    for (const hive_header &h : r.headers())
      if (view(h.name) == header_ && h.value.len > 0) return view(h.value);
    return by_tenant_ ? r.tenant() : std::string_view();
  }

  hive_column active_, capacity_, load_;
  std::string header_;
  bool by_tenant_;
  double factor_;
};

}  // namespace

HIVE_PLUGIN("strategy_consistent_hash", "1.0.0", "hivenet", "Apache-2.0", hive::sdk::strategy<consistent_hash>)
