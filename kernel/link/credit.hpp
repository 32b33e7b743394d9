// The two ends of a credit window, in bytes (docs/link.md, Credit). A sender may send a record while its window
// is above 0 and take it below 0 by that one record; otherwise a window under 4/3 of the largest record deadlocks.
// Plain arithmetic, no lock.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hive::link {

class send_window {
 public:
  void start(uint64_t bytes) { available_ = static_cast<int64_t>(bytes); }
  bool open() const { return available_ > 0; }
  int64_t available() const { return available_; }
  void charge(uint32_t bytes) { available_ -= bytes; }
  void add(uint32_t bytes) { available_ += bytes; }

 private:
  int64_t available_ = 0;
};

class receive_window {
 public:
  void start(uint32_t bytes) {
    size_ = bytes;
    view_ = bytes;
    owed_ = 0;
  }
  uint32_t size() const { return size_; }
  // What the sender has left when every credit on its way has arrived.
  int64_t view() const { return view_; }
  int64_t owed() const { return owed_; }
  // A record of that charge has come. False: the sender had no credit for it.
  bool took(uint32_t charge) {
    if (charge == 0) return true;
    const bool allowed = view_ > 0;
    view_ -= charge;
    return allowed;
  }
  // Returns the increment to send now, 0 = collect further. A quarter of the window is the step.
  uint32_t give_back(uint32_t bytes) {
    owed_ += bytes;
    if (owed_ <= 0 || owed_ < size_ / 4) return 0;
    const auto step = static_cast<uint32_t>(std::min<int64_t>(owed_, UINT32_MAX));
    owed_ -= step;
    view_ += step;
    return step;
  }
  // All that is owed, however little.
  uint32_t give_all() {
    const auto step = static_cast<uint32_t>(std::clamp<int64_t>(owed_, 0, UINT32_MAX));
    owed_ -= step;
    view_ += step;
    return step;
  }
  // Growing is granted with the next step; shrinking is kept back from what comes home, so it never takes credit away.
  void resize(uint32_t bytes) {
    owed_ += static_cast<int64_t>(bytes) - size_;
    size_ = bytes;
  }

 private:
  uint32_t size_ = 0;
  int64_t view_ = 0;
  int64_t owed_ = 0;
};

}  // namespace hive::link
