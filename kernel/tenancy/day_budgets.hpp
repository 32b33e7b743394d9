// Tokens a day (docs/quotas.md): a counter of each tenant, or of each tenant and model, back at 0 at 00:00 UTC. What it
// holds is what has been used, so that a limit that changes acts at the next call and nothing is reset by it.
//
// A request's prompt is taken before it is served and put right by what the engine counted; what was generated is charged at the end.
// Sums saturate: no number of a client or an engine makes a counter wrap or go below 0. Any thread; one mutex, held briefly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "tenancy/utc_days.hpp"

namespace hive::tenancy {

// What a request has taken, and of which day.
struct day_charge {
  uint64_t day = 0;
  uint64_t tokens = 0;
};

struct day_record {
  std::string budget;
  uint64_t day = 0;                // since 1970
  uint64_t used = 0;
};

class day_budgets {
 public:
  explicit day_budgets(const clock_source &clock) : days_(clock) {}

  // `limit` > 0 everywhere. The prompt is taken if it and the declared output fit into what is left; else nothing is.
  bool take(std::string_view budget, uint64_t limit, uint64_t prompt, uint64_t declared, day_charge &out);
  void give_back(std::string_view budget, const day_charge &);
  // What the request really cost; `prompt` is empty when nobody counted it. Prompts are only put right; an output that does not fit
  // uses up the rest of the day, and the answer is false. Of a charge of another day only the output counts.
  bool settle(std::string_view budget, uint64_t limit, const day_charge &, std::optional<uint64_t> prompt, uint64_t output);

  uint64_t used(std::string_view budget);
  uint64_t remaining(std::string_view budget, uint64_t limit);
  uint64_t seconds_left();         // of the day, at least 1
  uint64_t today();
  std::vector<day_record> rows();  // of today
  size_t sweep();                  // forgets what is of past days; returns how many
  size_t size() const;

  // For whoever keeps them: what has changed since the last call; what could not be written is handed back; what was found of today is
  // added to what has been used meanwhile. With `again` the day has been read before, so that a counter may hold some of it already:
  // the larger counts.
  std::vector<day_record> take_changed();
  void changed_again(const std::vector<day_record> &);
  void restore(const std::vector<day_record> &, bool again = false);

 private:
  struct counter {
    uint64_t day = 0, used = 0;
    bool changed = false;
  };
  counter &at(std::string_view budget);                // requires mutex_, as the next one
  bool is_today(const counter &, uint64_t today) const;

  mutable std::mutex mutex_;
  utc_days days_;
  std::unordered_map<std::string, counter, text_hash, std::equal_to<>> counters_;
};

}  // namespace hive::tenancy
