// Tokens and requests in flight: of each model against its budget (B2), and of each key on a model against its share (B4). What does
// not fit the budget now may park for a moment: first come, first served, so that a large request is not passed for ever by small ones.
//
// Any thread; one mutex, held for a few map operations, never while anything is called. A request that was parked hears of it on its
// own loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "base/loop.hpp"
#include "base/text.hpp"

namespace hive::tenancy {

struct occupancy_bounds {
  uint64_t tokens = 0;        // 0 = no bound
  uint64_t requests = 0;      // 0 = no bound
};

class occupancy;
struct occupancy_entry;

// What one request holds. Gives all of it back once, when it is released or destroyed. One thread at a time; the occupancy outlives it.
class occupancy_hold {
 public:
  occupancy_hold() = default;
  occupancy_hold(occupancy_hold &&other) noexcept { *this = std::move(other); }
  occupancy_hold &operator=(occupancy_hold &&) noexcept;
  ~occupancy_hold() { release(); }

  explicit operator bool() const { return model_ != nullptr; }
  uint64_t tokens() const { return tokens_; }
  void grow(uint64_t tokens);
  // By what was learned of it. Never frees more than this request holds.
  void correct(int64_t tokens);
  void release();

 private:
  friend class occupancy;
  occupancy *owner_ = nullptr;
  occupancy_entry *model_ = nullptr;
  occupancy_entry *share_ = nullptr;       // null: its key has no share
  uint64_t tokens_ = 0;
};

// A request that may park. All of it belongs to its loop; its calls come there, from a posted message or a timer, never from inside `take`.
class occupancy_waiter : private loop_timer {
 public:
  explicit occupancy_waiter(loop &home) : home_(home) {}
  bool parked() const { return ticket_ != nullptr; }
  void leave();                            // no-op when it does not park

 protected:
  ~occupancy_waiter() override { leave(); }
  virtual void on_room(occupancy_hold) = 0;
  virtual void on_no_room() = 0;           // its time is up, or it can never fit any more

 private:
  friend class occupancy;
  friend struct occupancy_entry;
  struct ticket;
  void on_timer() override;
  loop &home_;
  std::shared_ptr<ticket> ticket_;
};

class occupancy {
 public:
  static constexpr uint64_t idle_ns = 15 * 60 * ns_per_s;

  // At most `most_parked` requests of a model park at once; further ones are refused.
  explicit occupancy(const clock_source &clock, size_t most_parked = 1024);
  ~occupancy();

  enum class answer : uint8_t { granted, parked, refused };
  // `out` holds nothing yet. Without a waiter, with park_ns 0, and for what could never fit: granted or refused at once.
  answer take(std::string_view model, const occupancy_bounds &, uint64_t tokens, occupancy_hold &out, occupancy_waiter *, uint64_t park_ns);
  // Counts the hold against a second bound as well; false = it does not fit, and the hold is as it was.
  bool share(occupancy_hold &, std::string_view name, uint64_t most_tokens);

  // Models for which somebody parks.
  std::vector<std::string> crowded() const;
  // Whoever parks for it is judged by other bounds from now on: what fits them is granted, what never will is refused at once.
  void rebound(std::string_view model, const occupancy_bounds &);

  struct row {
    std::string model;
    occupancy_bounds bounds;               // at the last request that got in
    uint64_t tokens = 0, requests = 0, parked = 0;
  };
  std::vector<row> rows() const;
  // Forgets what holds nothing and has not been touched for idle_ns. Returns how many.
  size_t sweep();

 private:
  friend class occupancy_hold;
  friend class occupancy_waiter;
  using ticket_ptr = std::shared_ptr<occupancy_waiter::ticket>;
  using table = std::unordered_map<std::string, occupancy_entry, text_hash, std::equal_to<>>;

  occupancy_entry &entry_of(table &, std::string_view name);   // requires mutex_, as the next three
  void add(occupancy_entry &, uint64_t tokens);
  void subtract(occupancy_entry &, uint64_t tokens, bool request);
  void admit_parked(occupancy_entry &, std::vector<ticket_ptr> &granted);
  void change(occupancy_hold &, int64_t tokens);
  void give_back(occupancy_hold &);
  void arrived(const ticket_ptr &);
  static void refused(const ticket_ptr &);
  static void tell(const std::vector<ticket_ptr> &granted);

  const clock_source &clock_;
  const size_t most_parked_;
  mutable std::mutex mutex_;
  table models_, shares_;
};

}  // namespace hive::tenancy
