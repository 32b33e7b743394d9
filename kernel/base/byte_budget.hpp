// How many bytes a program holds for requests and answers, over all its workers, against a limit.
//
// One byte_budget a program: any thread. Each loop has a byte_share of it, which collects small changes so that the path of
// a chunk touches no shared cache line; what holds bytes has a byte_claim on the share. Share and claims belong to the loop.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hive {

class byte_budget {
 public:
  explicit byte_budget(uint64_t limit) : limit_(limit) {}  // 0 = no limit
  uint64_t limit() const { return limit_; }
  // Exact up to byte_share::step a loop.
  uint64_t held() const {
    const int64_t n = held_.load(std::memory_order_relaxed);
    return n > 0 ? static_cast<uint64_t>(n) : 0;
  }
  bool fits(uint64_t more) const { return limit_ == 0 || (more <= limit_ && held() <= limit_ - more); }
  bool over() const { return !fits(0); }

  // What was done to stay inside it.
  std::atomic<uint64_t> shed_before_body{0};   // requests refused unread
  std::atomic<uint64_t> shed_in_body{0};       // refused while their body grew
  std::atomic<uint64_t> slow_streams_ended{0};

 private:
  friend class byte_share;
  const uint64_t limit_;
  std::atomic<int64_t> held_{0};
};

class byte_share {
 public:
  static constexpr int64_t step = 64 * 1024;   // a loop's part may be off by so much

  explicit byte_share(byte_budget &of) : of_(of) {}
  ~byte_share() { publish(); }
  byte_share(const byte_share &) = delete;
  byte_share &operator=(const byte_share &) = delete;

  byte_budget &budget() const { return of_; }
  void add(int64_t n) {
    mine_ += n;
    const int64_t untold = mine_ - told_;
    if (untold >= step || untold <= -step || mine_ == 0) publish();
  }

 private:
  void publish() {
    if (mine_ != told_) of_.held_.fetch_add(mine_ - told_, std::memory_order_relaxed);
    told_ = mine_;
  }

  byte_budget &of_;
  int64_t mine_ = 0, told_ = 0;
};

// What one object holds; gives it back when it goes.
class byte_claim {
 public:
  explicit byte_claim(byte_share *of = nullptr) : of_(of) {}  // null: counts nowhere
  ~byte_claim() { set(0); }
  byte_claim(const byte_claim &) = delete;
  byte_claim &operator=(const byte_claim &) = delete;

  void set(size_t bytes) {
    if (bytes == bytes_) return;
    if (of_ != nullptr) of_->add(static_cast<int64_t>(bytes) - static_cast<int64_t>(bytes_));
    bytes_ = bytes;
  }
  size_t bytes() const { return bytes_; }

 private:
  byte_share *of_;
  size_t bytes_ = 0;
};

}  // namespace hive
