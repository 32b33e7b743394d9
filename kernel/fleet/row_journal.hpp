// Which rows of a pool had which value written lately, of the columns that somebody follows, so that whoever keeps something per row
// brings up to date those alone and not ten thousand. Guarded by the pool's lock. Membership is told by the pool's epoch, not here.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>

#include "hive/abi/host.h"

namespace hive::fleet {

class row_journal {
 public:
  static constexpr uint64_t room = 256;
  static constexpr size_t most_columns = 256;

  // Whoever reads says so before it relies on it, once a column: most are followed by nobody, and every request changes some of those.
  void follow(hive_column column) const { followed_.set(column); }
  bool follows(hive_column column) const { return followed_[column]; }
  // `column` 0 = some.
  void note(uint32_t row, hive_column column = 0) {
    if (column != 0 && !follows(column)) return;
    const entry e{row, column};
    if (written_ > 0 && entries_[(written_ - 1) % room] == e && written_ != read_) return;
    entries_[written_++ % room] = e;
  }
  // Calls f(row, column) for what was noted since `seen`, oldest first and maybe more than once, and moves `seen` to the end.
  // False: more was noted than is kept, so any row may have changed; f was not called.
  template <class F>
  bool since(uint64_t &seen, F &&f) const {
    const uint64_t from = seen;
    seen = read_ = written_;
    if (written_ - from > room) return false;
    for (uint64_t k = from; k < written_; ++k) f(entries_[k % room].row, entries_[k % room].column);
    return true;
  }

 private:
  struct entry {
    uint32_t row = 0;
    hive_column column = 0;
    bool operator==(const entry &) const = default;
  };
  std::array<entry, room> entries_{};
  mutable std::bitset<most_columns + 1> followed_;
  uint64_t written_ = 0;
  mutable uint64_t read_ = 0;  // an entry that somebody has seen is not written over by leaving its row out
};

}  // namespace hive::fleet
