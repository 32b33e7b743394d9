// A loop: one io_context run by one thread, with two things Asio lacks, a cheap end-of-turn hook and a coarse timer wheel.
//
// Only `post` may be called from another thread. Everything else belongs to the thread inside run().
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/clock.hpp"

namespace hive {

class loop;

namespace detail {
// Doubly linked, intrusive, self-unlinking: what timers and turn tasks hang on.
struct hook {
  hook *prev = nullptr;
  hook *next = nullptr;
  hook() = default;
  hook(const hook &) = delete;
  hook &operator=(const hook &) = delete;
  ~hook() { unlink(); }
  bool linked() const { return next != nullptr; }
  void unlink() {
    if (!linked()) return;
    prev->next = next;
    next->prev = prev;
    prev = next = nullptr;
  }
};
struct hook_list : hook {
  hook_list() { prev = next = this; }
  ~hook_list() {
    while (!empty()) next->unlink();
    prev = next = nullptr;
  }
  bool empty() const { return next == this; }
  void push_back(hook &h) {
    h.prev = prev;
    h.next = this;
    prev->next = &h;
    prev = &h;
  }
};
}  // namespace detail

// Runs once at the end of the loop turn in which it was scheduled; scheduled again after it ran there, in the next turn.
// Scheduling twice is once. Destroying it unschedules.
class turn_task : private detail::hook {
 public:
  virtual void on_turn_end() = 0;
  bool scheduled() const { return linked(); }

 protected:
  virtual ~turn_task() = default;

 private:
  friend class loop;
  uint64_t ran_in_ = 0;
};

// Fires once, between 0 and 10 ms late. Re-arming moves it; destroying disarms.
class loop_timer : private detail::hook {
 public:
  virtual void on_timer() = 0;
  bool armed() const { return linked(); }
  uint64_t due_ns() const { return due_ns_; }
  void disarm() { unlink(); }

 protected:
  virtual ~loop_timer() = default;

 private:
  friend class loop;
  uint64_t due_ns_ = 0;
};

// A loop_timer that calls a function; for cold paths.
class callback_timer final : public loop_timer {
 public:
  explicit callback_timer(std::function<void()> f) : f_(std::move(f)) {}
  void on_timer() override { f_(); }

 private:
  std::function<void()> f_;
};

class loop {
 public:
  loop();
  ~loop();
  loop(const loop &) = delete;
  loop &operator=(const loop &) = delete;

  boost::asio::io_context &io() { return io_; }
  // Runs until stop(); an exception out of a handler is logged by `on_exception` and the loop goes on.
  void run(const std::function<void(const char *what)> &on_exception = {});
  void stop() { io_.stop(); }  // any thread
  template <class F>
  void post(F &&f) {  // any thread
    boost::asio::post(io_, std::forward<F>(f));
  }

  void at_turn_end(turn_task &task);
  void arm(loop_timer &timer, uint64_t due_ns);
  void arm_in(loop_timer &timer, uint64_t delay_ns) { arm(timer, now_ns() + delay_ns); }

 private:
  static constexpr uint64_t tick_ns = 8 * ns_per_ms;
  static constexpr size_t slots = 512;

  void post_turn();
  void run_turn_tasks();
  void tick();
  void drive();
  void sleep_until(uint64_t target_tick);

  // Sockets and timers belong to the loop's thread, so Asio need not lock them; posting from others stays safe.
  boost::asio::io_context io_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE_IO};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  detail::hook_list turn_tasks_, next_turn_;
  uint64_t turn_ = 0;
  bool turn_posted_ = false;
  detail::hook_list wheel_[slots];
  uint64_t current_tick_;
  boost::asio::steady_timer driver_;
  bool driving_ = false;
  uint64_t driver_tick_ = 0;
};

}  // namespace hive
