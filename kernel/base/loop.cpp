#include "base/loop.hpp"

#include <exception>

namespace hive {

loop::loop() : work_(io_.get_executor()), current_tick_(now_ns() / tick_ns), driver_(io_) {}

loop::~loop() = default;

void loop::run(const std::function<void(const char *)> &on_exception) {
  while (true) {
    try {
      io_.run();
      return;
    } catch (const std::exception &e) {
      if (on_exception) on_exception(e.what());
    }
  }
}

void loop::at_turn_end(turn_task &task) {
  if (!task.linked()) turn_tasks_.push_back(task);
  if (!turn_posted_) post_turn();
}

void loop::post_turn() {
  turn_posted_ = true;
  // Handlers that are ready now run before this one: a posted handler goes to the end of the ready queue.
  boost::asio::post(io_, [this] { run_turn_tasks(); });
}

// What a task schedules runs in the same turn, too, or a request would wait for a look at the sockets between any two of its
// steps. Each task runs once a turn: one that is scheduled again after that waits for the next.
void loop::run_turn_tasks() {
  struct finish {
    loop &owner;
    ~finish() {
      while (!owner.next_turn_.empty()) {
        detail::hook &h = *owner.next_turn_.next;
        h.unlink();
        owner.turn_tasks_.push_back(h);
      }
      owner.turn_posted_ = false;
      if (!owner.turn_tasks_.empty()) owner.post_turn();
    }
  } const after{*this};
  ++turn_;
  // A task may destroy others: they unlink themselves.
  while (!turn_tasks_.empty()) {
    auto &task = static_cast<turn_task &>(*turn_tasks_.next);
    task.unlink();
    if (task.ran_in_ == turn_) {
      next_turn_.push_back(task);
    } else {
      task.ran_in_ = turn_;
      task.on_turn_end();
    }
  }
}

void loop::arm(loop_timer &timer, uint64_t due_ns) {
  timer.unlink();
  timer.due_ns_ = due_ns;
  const uint64_t due_tick = due_ns / tick_ns + 1;
  const uint64_t slot_tick = due_tick > current_tick_ ? due_tick : current_tick_ + 1;
  wheel_[slot_tick % slots].push_back(timer);
  if (driving_ && slot_tick < driver_tick_) {
    sleep_until(slot_tick);  // the driver sleeps past this timer
  } else {
    drive();
  }
}

void loop::sleep_until(uint64_t target_tick) {
  driver_tick_ = target_tick;
  driver_.expires_at(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(target_tick * tick_ns)));
  driver_.async_wait([this](const boost::system::error_code &error) {
    if (error) return;  // moved by a timer that is due earlier: that wait is still to come
    driving_ = false;
    tick();
  });
}

void loop::drive() {
  if (driving_) return;
  for (const auto &slot : wheel_) {
    if (slot.empty()) continue;
    driving_ = true;
    break;
  }
  if (!driving_) return;
  // Sleep to the next slot that holds anything, not from tick to tick.
  const uint64_t now_tick = now_ns() / tick_ns;
  if (now_tick > current_tick_ + slots) current_tick_ = now_tick - slots;
  uint64_t target = current_tick_ + 1;
  while (wheel_[target % slots].empty()) ++target;
  sleep_until(target);
}

void loop::tick() {
  const uint64_t now = now_ns();
  const uint64_t now_tick = now / tick_ns;
  // A timer that throws takes none of the others with it: they fire in the next tick.
  struct finish {
    loop &owner;
    detail::hook_list due;
    ~finish() {
      while (!due.empty()) {
        detail::hook &h = *due.next;
        h.unlink();
        owner.wheel_[(owner.current_tick_ + 1) % slots].push_back(h);
      }
      owner.drive();
    }
  } guard{*this, {}};
  detail::hook_list &due = guard.due;
  while (current_tick_ < now_tick) {
    ++current_tick_;
    auto &slot = wheel_[current_tick_ % slots];
    for (detail::hook *h = slot.next; h != &slot;) {
      detail::hook *next = h->next;
      if (static_cast<loop_timer *>(h)->due_ns_ <= now) {
        h->unlink();
        due.push_back(*h);
      }
      h = next;
    }
  }
  while (!due.empty()) {
    auto &timer = static_cast<loop_timer &>(*due.next);
    timer.unlink();
    timer.on_timer();
  }
}

}  // namespace hive
