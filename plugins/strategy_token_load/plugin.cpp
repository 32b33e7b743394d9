#include <algorithm>

#include "hive/sdk/ledger.hpp"
#include "hive/sdk/strategy.hpp"

// Sends each request where the tokens that are still to be computed would be done soonest.
//
// Requests differ by a factor of a thousand: ten words about the weather and a book to be summarised are one request each. A
// count of them is even when the work is not. Here an agent's load is the tokens it was sent and has not computed, of prompts
// and of answers, with this request's own, over the speed it has shown:
//
//     score = (tokens under way + this request's) / speed          (the least wins)
//
// What is under way is an estimate, and engines correct it. A prompt leaves the sum with its first token, the rest of a lease
// at its end. How long an answer will be nobody knows: clients that set max_tokens rarely use it up. The share of it that
// engines really produced, and the mean length where none was set, are averaged over the last ends and used for the next.
//
// The speed is what an agent's streams took against what the same tokens take in the pool's mean, prompts and answers each by
// their own. Neither is the agent's sum: an idle agent has a small sum, would be believed slow, be given less, and be idle. Nor
// is it tokens over time in one: a token of a prompt takes a hundredth of one of an answer, and the agent that was given the
// documents would seem the fastest. A prompt's time begins when the one before it was done, so that waiting is not counted
// twice. Each agent begins with the mean, and so little weight is on it that a handful of its own answers decide.
//
// Where prompts repeat each other `prefix-affinity` knows what need not be computed; it does not look at answers.

namespace {

using namespace hive::sdk;

class token_load {
 public:
  static constexpr std::string_view id = "token-load";
  static constexpr std::string_view summary = "the agent whose tokens under way are done soonest, prompts and expected answers";
  static constexpr std::string_view schema = R"({"type": "object", "additionalProperties": false, "properties": {
    "prompt_tokens": {"type": "integer", "minimum": 0, "maximum": 10000000, "default": 512,
                      "description": "of a request whose prompt nobody estimated"},
    "output_tokens": {"type": "integer", "minimum": 0, "maximum": 10000000, "default": 256,
                      "description": "of an answer with no limit set, until engines have told their mean"}}})";

  explicit token_load(const setup &s)
      : load_(s.host.column("load")), unknown_prompt_(static_cast<uint64_t>(s.options.integer("prompt_tokens", 512))),
        open_answer_(static_cast<double>(s.options.integer("output_tokens", 256))), leases_(s.host) {}

  std::optional<uint32_t> select(const request &r, const pool &p, scores out) const {
    const auto load = p.signal(load_);
    const work own = work_of(r);
    const double tokens = own.prompt + own.output;
    return least_scored(p, r.tie_seed(), out, [&](uint32_t i) {
      if (!agents_.has(i)) return load[i];
      const agent &a = agents_.at(i);
      // A load is at most about one: it orders only those that are equal to the token.
      return (a.under_way + tokens + load[i]) * slowness(a);
    });
  }

  void on_choice(const request &r, const pool &, uint32_t index) {
    if (!agents_.has(index)) return;
    const work w = work_of(r);
    agents_.at(index).under_way += w.prompt + w.output;
    leases_.add(index, r.now_ns(), w);
  }

  void on_outcome(const hive_outcome &o) {
    const bool first = o.phase == HIVE_PHASE_FIRST_TOKEN;
    auto *lease = leases_.find(o, [first](const work &w) { return (w.first_ns == 0) == first; });
    if (lease == nullptr) return;
    agent &a = agents_.at(o.index);
    work &w = lease->value;
    const uint64_t now = lease->made_ns + o.since_lease_ns;
    if (first) {
      const uint64_t begun = std::max(lease->made_ns, a.last_first_ns);
      if (w.first_ns == 0 && now > begun) a.time.add(prompts_.took(w.prompt, now - begun), seconds(now - begun));
      a.last_first_ns = w.first_ns = std::max<uint64_t>(1, now);
      take(a, w.prompt);
      w.prompt = 0;
      return;
    }
    take(a, w.prompt + w.output);
    if (o.status == HIVE_OK) learn(a, w, o, now);
    leases_.erase(o, lease);
    if (leases_.of(o.index).empty()) a.under_way = 0;  // no dust of rounding stays
  }

  void on_pool(const pool &p) {
    agents_.sync(p);
    leases_.sync(p);
  }

 private:
  struct work {
    double prompt = 0;         // tokens not computed yet
    double output = 0;         // expected
    double declared = 0;       // as the client limited it; 0 = not
    uint64_t first_ns = 0;     // its first token; 0 = not yet
  };
  // Of the pool's last few hundred prompts, or answers: fading sums.
  struct pace {
    double tokens = 0, seconds = 0;
    // The seconds that so many tokens take in the mean, these included.
    double took(double t, uint64_t ns) {
      tokens = tokens * (255.0 / 256) + t;
      seconds = seconds * (255.0 / 256) + token_load::seconds(ns);
      return tokens > 0 ? t * seconds / tokens : 0;
    }
  };
  // Of an agent's last few dozen: what they would have taken in the mean, and what they took.
  struct comparison {
    double mean = 0, real = 0;
    void add(double expected_s, double real_s) {
      mean = mean * (63.0 / 64) + expected_s;
      real = real * (63.0 / 64) + real_s;
    }
  };
  struct agent {
    double under_way = 0;
    comparison time;
    uint64_t last_first_ns = 0;
  };

  static double seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

  work work_of(const request &r) const {
    const uint64_t declared = r.output_tokens(0);
    return {static_cast<double>(r.prompt_tokens(unknown_prompt_)),
            declared == 0 ? open_answer_ : static_cast<double>(declared) * used_share_, static_cast<double>(declared), 0};
  }

  static void take(agent &a, double tokens) { a.under_way = std::max(0.0, a.under_way - tokens); }

  // 1 = as the pool's mean. A 64th of the pool's time, a few requests, speaks for the mean.
  double slowness(const agent &a) const {
    const double prior = (prompts_.seconds + answers_.seconds) / 64 + 1e-9;
    return (a.time.real + prior) / (a.time.mean + prior);
  }

  void learn(agent &a, const work &w, const hive_outcome &o, uint64_t now) {
    if (o.output_tokens == HIVE_TOKENS_UNKNOWN) return;
    const auto output = static_cast<double>(o.output_tokens);
    if (w.declared > 0) used_share_ += (std::min(1.0, output / w.declared) - used_share_) / 32;
    else open_answer_ += (output - open_answer_) / 32;
    // Of an answer in one piece nobody knows when it began.
    if (w.first_ns == 0 || now <= w.first_ns || output <= 0) return;
    a.time.add(answers_.took(output, now - w.first_ns), seconds(now - w.first_ns));
  }

  hive_column load_;
  uint64_t unknown_prompt_;
  double open_answer_;             // tokens of an answer without a limit
  double used_share_ = 1;          // of max_tokens
  pace prompts_, answers_;
  per_agent<agent> agents_;
  ledger<work> leases_;
};

}  // namespace

HIVE_PLUGIN("strategy_token_load", "1.0.0", "hivenet", "Apache-2.0", hive::sdk::strategy<token_load>)
