// A fleet of engines in simulated time, for seeing what a rule of choosing does to people who wait. The model of an engine:
// an LRU cache of prompt blocks; prompts are computed one after the other at a fixed rate of uncached tokens; answers come at
// a fixed time a token, any number at once. Requests arrive when the list says, whatever happened to those before.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <unordered_map>
#include <vector>

namespace hive::simulation {

constexpr double tokens_a_block = 512;

struct arrival {
  double at_s = 0;
  uint32_t prompt = 0, output = 0;       // tokens
  std::vector<uint64_t> blocks;          // of the prompt; equal = equal prefix
  std::string session, tenant;
};

struct engine_kind {
  double prefill_tokens_s = 8000;
  double token_s = 0.02;
  size_t cache_blocks = 0;
  double capacity = 256;                 // told to the rule; the engine itself takes any number
  double slow_from_s = 1e18, slow_until_s = 1e18, slow_factor = 1;   // everything takes that much longer then
};

// Blocks held, the least recently used out first; of a path the root is the most recently used.
class lru_cache {
 public:
  explicit lru_cache(size_t most) : most_(most) {}
  size_t match(const std::vector<uint64_t> &path) const {
    size_t n = 0;
    while (n < path.size() && at_.contains(path[n])) ++n;
    return n;
  }
  void touch(const std::vector<uint64_t> &path) {
    for (size_t i = path.size(); i-- > 0;) {
      if (const auto found = at_.find(path[i]); found != at_.end()) order_.erase(found->second);
      order_.push_front(path[i]);
      at_[path[i]] = order_.begin();
    }
    for (; order_.size() > most_; order_.pop_back()) at_.erase(order_.back());
  }

 private:
  size_t most_;
  std::list<uint64_t> order_;
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> at_;
};

// What a router sees of the fleet.
struct agent_state {
  uint32_t active = 0;
  double capacity = 0;
  double srtt_ms = 0;                    // 0 = not known
  double tokens = 0;                     // of its requests, prompt and answer
  double load() const { return active / capacity; }
};

struct outcome {
  uint32_t agent = 0;
  double since_s = 0;                    // the lease was made so long ago
  bool end = false;                      // else the first token
  const arrival *request = nullptr;
  double cached_tokens = 0;              // end: as the engine counted
};

class rule {
 public:
  virtual ~rule() = default;
  virtual uint32_t choose(double now_s, const arrival &, const std::vector<agent_state> &) = 0;
  virtual void tell(double /*now_s*/, const outcome &) {}
};

struct answer {
  double at_s, first_s, total_s;         // arrival, then since it
  uint32_t agent;
};

struct run_result {
  std::vector<answer> answers;           // in order of arrival
  std::vector<double> prefilled;         // uncached tokens an agent computed
  double hit_rate = 0;                   // cached prompt tokens over all
  double busiest = 0;                    // most prefilled over the mean
  double first_p(double share) const;    // a percentile of first_s
};

run_result simulate(const std::vector<arrival> &, const std::vector<engine_kind> &, rule &);

// tests/traces/*.txt; `speed` divides the time between requests. `ahead` tiny requests come before them: they change nothing but
// whose turn it is when agents are equal.
std::vector<arrival> read_trace(const std::string &path, double speed = 1, uint32_t ahead = 0);

}  // namespace hive::simulation
