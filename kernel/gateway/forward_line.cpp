#include "gateway/forward_line.hpp"

#include <iterator>

namespace hive::gateway {

struct forward_waiter::ticket : std::enable_shared_from_this<ticket> {
  loop *home = nullptr;
  forward_waiter *owner = nullptr;      // null once the owner has gone; owner's loop only
  std::list<std::shared_ptr<ticket>> *line = nullptr;  // guarded by the line's mutex, as is `at`
  std::list<std::shared_ptr<ticket>>::iterator at;
  uint64_t since_ns = 0;
  std::unique_ptr<callback_timer> place_timer;         // owner's loop only
};

forward_line::forward_line(size_t slots, size_t queue_size, uint64_t place_wait_ns, const clock_source *clock)
    : slots_(slots), queue_size_(queue_size), place_wait_ns_(place_wait_ns), clock_(clock != nullptr ? *clock : system_clock()) {}

forward_waiter::~forward_waiter() {
  if (line_ == nullptr) return;
  line_->leave(*this);
  line_->release(*this);
}

forward_line::answer forward_line::acquire(forward_waiter &who, bool with_lease) {
  who.line_ = this;
  const std::lock_guard guard(mutex_);
  if (in_use_ < slots_ && leased_.empty() && (with_lease || plain_.empty())) {
    ++in_use_;
    who.holds_ = true;
    return answer::granted;
  }
  if (!with_lease && plain_.size() >= 2 * queue_size_) return answer::full;
  auto ticket = std::make_shared<forward_waiter::ticket>();
  ticket->home = &who.loop_;
  ticket->owner = &who;
  auto &line = with_lease ? leased_ : plain_;
  const bool overflow = !with_lease && plain_.size() >= queue_size_;
  ticket->line = &line;
  ticket->at = line.insert(line.end(), ticket);
  ticket->since_ns = clock_.now();
  who.ticket_ = ticket;
  if (overflow) {
    ticket->place_timer = std::make_unique<callback_timer>([this, weak = std::weak_ptr(ticket)] {
      if (const auto t = weak.lock()) expire(t);
    });
    who.loop_.arm_in(*ticket->place_timer, place_wait_ns_);
  }
  return answer::waiting;
}

void forward_line::expire(const ticket_ptr &ticket) {
  {
    const std::lock_guard guard(mutex_);
    if (ticket->line == nullptr) return;
    size_t position = 0;
    for (auto it = plain_.begin(); it != ticket->at && position < queue_size_; ++it) ++position;
    if (position < queue_size_) return;  // it has moved up into the line proper
    plain_.erase(ticket->at);
    ticket->line = nullptr;
    if (plain_.empty()) turnover_.emptied();
  }
  forward_waiter *owner = ticket->owner;
  if (owner == nullptr) return;
  owner->ticket_.reset();
  owner->on_forward_refused();
}

void forward_line::grant_next() {
  while (in_use_ < slots_ && !(leased_.empty() && plain_.empty())) {
    const bool plain = leased_.empty();
    auto &line = plain ? plain_ : leased_;
    const ticket_ptr ticket = line.front();
    line.pop_front();
    if (plain) {
      const uint64_t now = clock_.now();
      turnover_.granted(now, now - ticket->since_ns, !plain_.empty());
    }
    ticket->line = nullptr;
    ++in_use_;
    ticket->home->post([this, ticket] {
      ticket->place_timer.reset();
      forward_waiter *owner = ticket->owner;
      if (owner == nullptr) {  // it left while the slot was on its way
        const std::lock_guard guard(mutex_);
        --in_use_;
        grant_next();
        return;
      }
      owner->ticket_.reset();
      owner->holds_ = true;
      owner->on_forward_slot();
    });
  }
}

void forward_line::release(forward_waiter &who) {
  if (!who.holds_) return;
  who.holds_ = false;
  const std::lock_guard guard(mutex_);
  --in_use_;
  grant_next();
}

void forward_line::leave(forward_waiter &who) {
  const ticket_ptr ticket = std::move(who.ticket_);
  if (!ticket) return;
  ticket->owner = nullptr;
  ticket->place_timer.reset();
  const std::lock_guard guard(mutex_);
  if (ticket->line == nullptr) return;  // granted and on its way; the posted handler passes it on
  ticket->line->erase(ticket->at);
  ticket->line = nullptr;
  if (plain_.empty()) turnover_.emptied();
}

size_t forward_line::in_use() const {
  const std::lock_guard guard(mutex_);
  return in_use_;
}

uint64_t forward_line::gap_ns() const {
  const std::lock_guard guard(mutex_);
  return turnover_.gap_ns(clock_.now());
}

size_t forward_line::waiting() const {
  const std::lock_guard guard(mutex_);
  return leased_.size() + plain_.size();
}

}  // namespace hive::gateway
