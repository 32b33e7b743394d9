// The threshold rules of one step over one pool: judged row by row, kept, and brought up to date by what changed. A selection
// reads one byte an agent, however many rules there are; ten thousand agents are not compared again for each request.
//
// A rule with `leave` remembers whom it keeps out. It does so in what a selection sees: a value that went over the limit and
// back between two selections kept nobody out. A missing value changes nothing of it.
//
// Guarded by the pool's lock; made by the control thread. No allocation but when the pool's membership has changed.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fleet/pool.hpp"
#include "routing/policy.hpp"
#include "routing/queue.hpp"

namespace hive::routing {

// Whom one rule keeps out. Belongs to (document, step, pool, field, rule as written) and outlives a reload that changes none
// of them. An agent that leaves the pool is forgotten, one that registers again is not.
struct hysteresis {
  std::vector<uint8_t> out;        // one byte a slot, 1 = kept out until its value is past `leave`
  std::vector<uint64_t> keys;      // whose slot it is
  void sync(const fleet::pool &);  // after a change of membership
};

struct bound_rule {
  threshold bound;
  hive_column column = 0;
  std::string field;
  std::shared_ptr<hysteresis> memory;  // null without `leave`
};

class threshold_rules {
 public:
  void add(bound_rule);
  const std::vector<bound_rule> &all() const { return rules_; }
  bool empty() const { return rules_.empty(); }
  // Columns with a max_age, once a pair.
  const std::vector<aged_column> &ages() const { return ages_; }

  // One byte a slot: 1 = no rule is violated. Valid until the next call.
  const uint8_t *passes(const fleet::pool &, const hive_pool &view, uint64_t now_ns);

  // How a rule judges one agent now; changes nothing.
  struct state {
    double value = 0;          // NaN = none
    bool missing = false;      // none, or older than max_age
    uint64_t age_ns = 0;       // 0 = live
    double limit = 0;          // that counts: `leave` while it is kept out
    bool kept_out = false;     // since an earlier selection
    bool violated = false;
  };
  static state judge(const bound_rule &, const hive_pool &view, uint64_t now_ns, uint32_t index);

 private:
  void judge_row(const hive_pool &, uint64_t now_ns, uint32_t index);
  void judge_all(const hive_pool &, uint64_t now_ns);

  std::vector<bound_rule> rules_;
  std::vector<aged_column> ages_;
  std::bitset<fleet::column_table::limit + 1> reads_;
  std::vector<uint8_t> passes_;
  uint64_t epoch_ = 0;         // of the pool when all rows were judged last
  uint64_t seen_ = 0;          // of its changes
  uint64_t due_ns_ = 0;        // when the first value passes its max_age
};

}  // namespace hive::routing
