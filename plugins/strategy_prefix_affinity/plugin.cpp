#include <algorithm>
#include <bit>

#include "block_memory.hpp"
#include "hive/sdk/ledger.hpp"
#include "hive/sdk/strategy.hpp"

// Sends a request to where its prompt is cached, unless waiting there would cost more than computing it elsewhere.
//
// An engine keeps the prompts it has computed and starts at the first token it has not seen. What a request costs it is its
// *uncached* tokens, and what a request waits for is the uncached tokens that were sent there before it. Both are in tokens,
// so that they can be added:
//
//     score = backlog of uncached tokens + weight x the request's own uncached tokens            (the least wins)
//
// Rules that first look for the longest match and leave it only when an agent has too many requests get as many cache hits and
// let people wait twice as long: hundreds of requests with a warm prompt are less work than ten with a cold one, and a count of
// requests does not see it. With weight 1 a request goes where it has its answer soonest, and computes again what is cached
// elsewhere; each time it does, everybody behind it waits for it. The weight is the price of that. From 4 to 10 the hit rate
// is nearly that of the longest match and the queues are the shortest there are (docs/strategies/prefix-affinity.md has the
// measurements); more, and requests queue up behind warm agents.
//
// Nobody tells the router what is in an engine's cache, so this is a guess, corrected three ways:
// - Each agent is believed to hold the blocks last sent to it, up to `blocks` (block_memory.hpp). The engine's count of cached
//   tokens at the request's end says how much of the match was really there; its average is the agent's trust, by which later
//   matches count less. An engine without a prefix cache ends at a trust of zero, and its agent is judged by its backlog alone.
// - The backlog is what was sent and has not begun to answer. Engines begin in the order of arrival: a first token, or an
//   end, tells that everything sent before it has been computed as well, so that an answer in one piece, which tells nothing
//   until its end, does not count as backlog for so long. What was believed uncached and was cached after all, or the other way
//   round, leaves with the lease, so that no error adds up.
// - Of what an agent is computing part is done already, and of a long prompt that is seconds. How fast it computes is learned from
//   how long first tokens take, so its backlog shrinks with time and not only with answers; never below the prompts behind that one.
//
// Equal scores go to the agent with the lowest load, and then take turns. One instance per (step, pool); a reload of policies
// that leaves its options as they are keeps what it has learned.

namespace {

using namespace hive::sdk;
using hive::prefix_affinity::block_memory;

class prefix_affinity {
 public:
  static constexpr std::string_view id = "prefix-affinity";
  static constexpr std::string_view summary = "the agent with the least uncached prompt tokens to compute, its backlog and this request's";
  static constexpr uint32_t needs = HIVE_NEEDS_PREFIX_BLOCKS;
  static constexpr std::string_view schema = R"({"type": "object", "additionalProperties": false, "properties": {
    "weight": {"type": "number", "minimum": 0, "maximum": 1000, "default": 4,
               "description": "what an uncached token of the request counts against one that waits at the agent"},
    "blocks": {"type": "integer", "minimum": 1, "maximum": 1048576, "default": 4096,
               "description": "prompt blocks remembered of each agent; about what its engine's cache holds"},
    "total_blocks": {"type": "integer", "minimum": 1, "maximum": 16777216, "default": 1048576,
                     "description": "and of all agents of the pool together, at 24 to 32 bytes a block"}}})";

  explicit prefix_affinity(const setup &s)
      : host_(s.host), load_(s.host.column("load")), weight_(s.options.number("weight", 4)),
        blocks_(static_cast<uint64_t>(s.options.integer("blocks", 4096))),
        total_blocks_(static_cast<uint64_t>(s.options.integer("total_blocks", 1 << 20))), leases_(s.host) {}

  std::optional<uint32_t> select(const request &r, const pool &p, scores out) const {
    const auto load = p.signal(load_);
    return least_scored(p, r.tie_seed(), out, [&](uint32_t i) {
      if (!agents_.has(i)) return load[i];
      const agent &a = agents_.at(i);
      // A load is at most about one: it orders only those that are equal to the token.
      return a.backlog - a.done(r.now_ns()) + weight_ * uncached_of(r, a).tokens + load[i];
    });
  }

  void on_choice(const request &r, const pool &, uint32_t index) {
    if (!agents_.has(index)) return;
    agent &a = agents_.at(index);
    const work w = uncached_of(r, a);
    a.backlog += w.tokens;
    if (a.first.tokens == 0) a.first = {w.tokens, r.now_ns(), r.now_ns()};
    a.memory.touch(r.prefix_blocks());
    leases_.add(index, r.now_ns(), w);
  }

  void on_outcome(const hive_outcome &o) {
    const bool first = o.phase == HIVE_PHASE_FIRST_TOKEN;
    auto *lease = leases_.find(o, [first](const work &w) { return w.computed != first; });
    if (lease == nullptr) return;
    agent &a = agents_.at(o.index);
    const uint64_t now = host_.now_ns();
    const uint64_t since = a.first.since_ns;
    double computed = 0;
    for (auto *l = first || o.status == HIVE_OK ? leases_.of(o.index).data() : lease; l <= lease; ++l) {
      computed += l->value.tokens;
      settle(a, *l);
    }
    // An answer in one piece ends long after its prompt was computed.
    if (first && computed > 0) a.pace.add(computed, now - std::min(now, since));
    if (!first) {
      if (o.status == HIVE_OK) learn(a, lease->value.believed, o);
      leases_.erase(o, lease);
    }
    if (leases_.of(o.index).empty()) a.backlog = 0;  // no dust of rounding stays
    find_first(a, leases_.of(o.index), now);
  }

  void on_pool(const pool &p) {
    agents_.sync(p);
    leases_.sync(p);
    // By halves, so that a fleet that grows by one does not cut every memory.
    const uint64_t share = total_blocks_ / std::bit_ceil(std::max<uint64_t>(1, p.count()));
    const auto limit = static_cast<uint32_t>(std::clamp<uint64_t>(share, 1, blocks_));
    for (uint32_t i = 0; i < p.count(); ++i)
      if (agents_.has(i)) agents_.at(i).memory.set_limit(limit);
  }

 private:
  struct work {
    double tokens = 0;     // uncached, not computed yet
    double believed = 0;   // share of the prompt that the memory held
    bool computed = false;
  };
  // How fast uncached tokens are computed: those of the last first tokens over the time since the one before, newer ones counting
  // more. Tokens weigh, not requests: what a short prompt waits for is mostly not its tokens.
  struct speed {
    double tokens = 0, ns = 0;
    void add(double computed, uint64_t took_ns) {
      tokens += computed - tokens / 8;
      ns += static_cast<double>(took_ns) - ns / 8;
    }
    double per_ns() const { return ns > 0 ? tokens / ns : 0; }
  };
  // The prompt that is being computed: the oldest that has uncached tokens and has not begun to answer. tokens 0 = none.
  struct prompt {
    double tokens = 0;
    uint64_t made_ns = 0, since_ns = 0;
  };
  struct agent {
    double backlog = 0;
    double trust = 1;      // cached tokens that engines counted over those believed
    speed pace;
    prompt first;
    block_memory memory;

    double done(uint64_t now_ns) const {
      return now_ns > first.since_ns ? std::min(first.tokens, pace.per_ns() * static_cast<double>(now_ns - first.since_ns)) : 0;
    }
  };

  // Blocks are of a fixed number of bytes; where nobody estimated the prompt, about this many tokens each.
  static constexpr uint64_t tokens_a_block = 128;

  static work uncached_of(const request &r, const agent &a) {
    const auto path = r.prefix_blocks();
    const auto tokens = static_cast<double>(r.prompt_tokens(path.size() * tokens_a_block));
    if (path.empty()) return {tokens, 0, false};
    const double believed = static_cast<double>(a.memory.match(path)) / static_cast<double>(path.size());
    const double trust = a.trust < 1.0 / 64 ? 0 : a.trust;  // an average of noughts never gets there
    return {tokens * (1 - trust * believed), believed, false};
  }

  static void find_first(agent &a, const std::vector<ledger<work>::lease> &all, uint64_t now_ns) {
    const auto next = std::find_if(all.begin(), all.end(), [](const auto &l) { return !l.value.computed && l.value.tokens > 0; });
    if (next == all.end()) a.first = {};
    else if (a.first.tokens == 0 || next->made_ns != a.first.made_ns) a.first = {next->value.tokens, next->made_ns, now_ns};
  }

  static void settle(agent &a, ledger<work>::lease &l) {
    // Of several made at the same moment the first in line is settled first: it is the one that a.first stands for.
    if (l.value.tokens > 0 && l.made_ns == a.first.made_ns) a.first = {};
    a.backlog = std::max(0.0, a.backlog - l.value.tokens);
    l.value.tokens = 0;
    l.value.computed = true;
  }

  static void learn(agent &a, double believed, const hive_outcome &o) {
    if (believed == 0 || o.cached_tokens == HIVE_TOKENS_UNKNOWN || o.prompt_tokens == HIVE_TOKENS_UNKNOWN || o.prompt_tokens == 0) return;
    const double found = static_cast<double>(o.cached_tokens) / (believed * static_cast<double>(o.prompt_tokens));
    a.trust += (std::min(1.0, found) - a.trust) / 8;
  }

  host host_;
  hive_column load_;
  double weight_;
  uint64_t blocks_, total_blocks_;
  per_agent<agent> agents_;
  ledger<work> leases_;
};

}  // namespace

HIVE_PLUGIN("strategy_prefix_affinity", "1.0.0", "hivenet", "Apache-2.0", hive::sdk::strategy<prefix_affinity>)
