// Which rows of a pool had a value written lately, so that who keeps something per row brings up to date those alone and
// not ten thousand. Guarded by the pool's lock. Membership is told by the pool's epoch, not here.
#pragma once

#include <array>
#include <cstdint>

namespace hive::fleet {

class row_journal {
 public:
  static constexpr uint64_t room = 256;

  void note(uint32_t row) {
    if (written_ > 0 && rows_[(written_ - 1) % room] == row && written_ != read_) return;
    rows_[written_++ % room] = row;
  }
  // Calls f(row) for what was noted since `seen`, oldest first and maybe more than once, and moves `seen` to the end. False:
  // more was noted than is kept, so any row may have changed; f was not called.
  template <class F>
  bool since(uint64_t &seen, F &&f) const {
    const uint64_t from = seen;
    seen = read_ = written_;
    if (written_ - from > room) return false;
    for (uint64_t k = from; k < written_; ++k) f(rows_[k % room]);
    return true;
  }

 private:
  std::array<uint32_t, room> rows_{};
  uint64_t written_ = 0;
  mutable uint64_t read_ = 0;  // an entry that somebody has seen is not written over by leaving its row out
};

}  // namespace hive::fleet
