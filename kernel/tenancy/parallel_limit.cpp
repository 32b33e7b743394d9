#include "tenancy/parallel_limit.hpp"

#include <utility>

namespace hive::tenancy {

struct parallel_turn::ticket {
  enum class state : uint8_t { waits, granted, over };

  parallel_limit *from = nullptr;
  std::string key_id, model;
  uint32_t most = 0, most_of_model = 0;
  state now = state::waits;                                     // guarded by the limit's mutex, as is `at`
  std::list<std::shared_ptr<ticket>>::iterator at;              // while it waits
  loop *home = nullptr;
  parallel_turn *owner = nullptr;                               // the owner's loop only; null once it has left
  bool holds = false;                                           // likewise: the owner knows that it was granted
};

bool parallel_turn::holds() const { return ticket_ != nullptr && ticket_->holds; }

void parallel_turn::leave() {
  const auto mine = std::move(ticket_);
  if (!mine) return;
  mine->owner = nullptr;
  mine->from->leave(mine);
}

bool parallel_limit::entry::fits(const parallel_turn::ticket &t) const {
  if (t.most != 0 && running >= t.most) return false;
  if (t.most_of_model == 0) return true;
  const auto found = by_model.find(t.model);
  return found == by_model.end() || found->second < t.most_of_model;
}

void parallel_limit::entry::add(const parallel_turn::ticket &t) {
  ++running;
  ++by_model[t.model];
}

parallel_limit::answer parallel_limit::take(parallel_turn &who, const parallel_ask &asked) {
  auto t = std::make_shared<parallel_turn::ticket>();
  t->from = this;
  t->key_id = asked.key_id;
  t->model = asked.model;
  t->most = asked.most;
  t->most_of_model = asked.most_of_model;
  t->home = &who.home_;
  t->owner = &who;

  const std::lock_guard guard(mutex_);
  // The request's key is the one that it was let in with; its body may have taken longer than the key has lasted.
  if (const auto now = of_ ? of_(asked.key_id) : std::nullopt) {
    t->most = now->most;
    t->most_of_model = now->most_of_model;
  }
  auto found = keys_.find(asked.key_id);
  if (found == keys_.end()) found = keys_.emplace(t->key_id, entry()).first;
  entry &e = found->second;
  // Those that wait have been passed over already, so that one that fits passes nobody who would.
  if (e.fits(*t)) {
    e.add(*t);
    ++running_;
    t->now = parallel_turn::ticket::state::granted;
    t->holds = true;
    who.ticket_ = std::move(t);
    return answer::granted;
  }
  if (!asked.waits || e.waiting.size() >= most_waiting_) return answer::refused;  // something runs or waits: the entry stays
  t->at = e.waiting.insert(e.waiting.end(), t);
  ++waiting_;
  who.ticket_ = std::move(t);
  return answer::waits;
}

void parallel_limit::leave(const ticket_ptr &gone) {
  using state = parallel_turn::ticket::state;
  std::vector<ticket_ptr> granted;
  {
    const std::lock_guard guard(mutex_);
    const auto found = keys_.find(gone->key_id);
    if (found == keys_.end() || gone->now == state::over) return;
    entry &e = found->second;
    if (std::exchange(gone->now, state::over) == state::waits) {
      e.waiting.erase(gone->at);
      --waiting_;
    } else {
      --e.running;
      --running_;
      if (const auto of_model = e.by_model.find(gone->model); --of_model->second == 0) e.by_model.erase(of_model);
      let_in(e, granted);
    }
    if (e.running == 0 && e.waiting.empty()) keys_.erase(found);
  }
  tell(granted);
}

void parallel_limit::rebound(bounds_of of) {
  std::vector<ticket_ptr> granted;
  {
    const std::lock_guard guard(mutex_);
    of_.swap(of);   // the one before goes when the mutex is free
    for (auto &[key_id, e] : keys_) {
      if (e.waiting.empty() || !of_) continue;
      const auto now = of_(key_id);
      if (!now) continue;
      for (const ticket_ptr &t : e.waiting) {
        t->most = now->most;
        t->most_of_model = now->most_of_model;
      }
      let_in(e, granted);
    }
  }
  tell(granted);
}

// With mutex_ held.
void parallel_limit::let_in(entry &e, std::vector<ticket_ptr> &granted) {
  for (auto next = e.waiting.begin(); next != e.waiting.end();) {
    const ticket_ptr t = *next;
    if (!e.fits(*t)) {
      ++next;
      continue;
    }
    next = e.waiting.erase(next);
    --waiting_;
    e.add(*t);
    ++running_;
    t->now = parallel_turn::ticket::state::granted;
    granted.push_back(t);
  }
}

// Whoever left meanwhile has given it back: leave() finds it granted, whether its owner knew or not.
void parallel_limit::tell(const std::vector<ticket_ptr> &granted) {
  for (const ticket_ptr &t : granted)
    t->home->post([t] {
      if (t->owner == nullptr) return;
      t->holds = true;
      t->owner->on_turn();
    });
}

size_t parallel_limit::running() const {
  const std::lock_guard guard(mutex_);
  return running_;
}

size_t parallel_limit::waiting() const {
  const std::lock_guard guard(mutex_);
  return waiting_;
}

}  // namespace hive::tenancy
