// Requests under way at once, of a key and of a key to one model. One too many is refused, or waits until one of the key's others
// ends: first come, first served among those that may go; a model at its limit holds up nobody who wants another.
//
// Any thread; one mutex, held for a few map operations, never while anything is called but `of` of rebound. Whoever waited hears of it on its own loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/loop.hpp"
#include "base/text.hpp"

namespace hive::tenancy {

class parallel_limit;

// What one request holds, or waits for. All of it belongs to its loop; on_turn is posted there, never called from inside `take`. The
// limit outlives it.
class parallel_turn {
 public:
  explicit parallel_turn(loop &home) : home_(home) {}
  parallel_turn(const parallel_turn &) = delete;
  void leave();                    // gives back what it holds, or waits no longer. Idempotent
  bool holds() const;
  bool waits() const { return ticket_ != nullptr && !holds(); }

 protected:
  virtual ~parallel_turn() { leave(); }
  virtual void on_turn() = 0;      // it holds from now on

 private:
  friend class parallel_limit;
  struct ticket;
  loop &home_;
  std::shared_ptr<ticket> ticket_;
};

struct parallel_ask {
  std::string_view key_id, model;
  uint32_t most = 0, most_of_model = 0;    // 0 = no limit
  bool waits = false;
};

class parallel_limit {
 public:
  // At most `most_waiting` requests of a key wait; further ones are refused.
  explicit parallel_limit(size_t most_waiting = 30) : most_waiting_(most_waiting) {}

  enum class answer : uint8_t { granted, waits, refused };
  // Once a turn.
  answer take(parallel_turn &, const parallel_ask &);

  struct bounds {
    uint32_t most = 0, most_of_model = 0;   // 0 = no limit
  };
  using bounds_of = std::function<std::optional<bounds>(std::string_view key_id)>;
  // Keys have changed: those that wait, and those that come with what their key said before, have the limits of their key now; nothing =
  // what they were asked with. `of` is kept until the next one and called with the mutex held.
  void rebound(bounds_of of);

  size_t running() const;
  size_t waiting() const;

 private:
  friend class parallel_turn;
  using ticket_ptr = std::shared_ptr<parallel_turn::ticket>;
  struct entry {
    uint32_t running = 0;
    std::unordered_map<std::string, uint32_t> by_model;
    std::list<ticket_ptr> waiting;

    bool fits(const parallel_turn::ticket &) const;
    void add(const parallel_turn::ticket &);
  };
  void leave(const ticket_ptr &);
  void let_in(entry &, std::vector<ticket_ptr> &granted);
  static void tell(const std::vector<ticket_ptr> &granted);

  const size_t most_waiting_;
  mutable std::mutex mutex_;
  bounds_of of_;
  std::unordered_map<std::string, entry, text_hash, std::equal_to<>> keys_;
  size_t running_ = 0, waiting_ = 0;
};

}  // namespace hive::tenancy
