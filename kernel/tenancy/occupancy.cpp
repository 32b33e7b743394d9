#include "tenancy/occupancy.hpp"

#include <algorithm>
#include <utility>

namespace hive::tenancy {

// Guarded by the occupancy's mutex but for `owner`, which is its loop's.
struct occupancy_waiter::ticket {
  occupancy *from = nullptr;
  occupancy_entry *entry = nullptr;
  occupancy_bounds bounds;
  uint64_t tokens = 0;
  bool granted = false;                    // it holds, and the message is on its way
  loop *home = nullptr;
  occupancy_waiter *owner = nullptr;       // null once it has left
};

struct occupancy_entry {
  uint64_t tokens = 0, requests = 0, touched_ns = 0;
  occupancy_bounds bounds;
  std::list<std::shared_ptr<occupancy_waiter::ticket>> parked;

  bool fits(const occupancy_bounds &b, uint64_t more) const {
    return (b.tokens == 0 || (more <= b.tokens && tokens <= b.tokens - more)) && (b.requests == 0 || requests < b.requests);
  }
  bool idle() const { return requests == 0 && parked.empty(); }
};

occupancy::occupancy(const clock_source &clock, size_t most_parked) : clock_(clock), most_parked_(most_parked) {}
occupancy::~occupancy() = default;

occupancy_entry &occupancy::entry_of(table &in, std::string_view name) {
  auto found = in.find(name);
  if (found == in.end()) found = in.emplace(std::string(name), occupancy_entry()).first;
  found->second.touched_ns = clock_.now();
  return found->second;
}

void occupancy::add(occupancy_entry &e, uint64_t tokens) {
  e.tokens += tokens;
  ++e.requests;
}

void occupancy::subtract(occupancy_entry &e, uint64_t tokens, bool request) {
  e.tokens -= std::min(e.tokens, tokens);
  if (request && e.requests > 0) --e.requests;
  e.touched_ns = clock_.now();
}

occupancy::answer occupancy::take(std::string_view model, const occupancy_bounds &bounds, uint64_t tokens, occupancy_hold &out,
                                  occupancy_waiter *waiter, uint64_t park_ns) {
  if (bounds.tokens != 0 && tokens > bounds.tokens) return answer::refused;
  {
    const std::lock_guard guard(mutex_);
    occupancy_entry &e = entry_of(models_, model);
    if (e.parked.empty() && e.fits(bounds, tokens)) {
      e.bounds = bounds;
      add(e, tokens);
      out.owner_ = this;
      out.model_ = &e;
      out.tokens_ = tokens;
      return answer::granted;
    }
    if (waiter == nullptr || park_ns == 0 || e.parked.size() >= most_parked_) return answer::refused;
    auto t = std::make_shared<occupancy_waiter::ticket>();
    t->from = this;
    t->entry = &e;
    t->bounds = bounds;
    t->tokens = tokens;
    t->home = &waiter->home_;
    t->owner = waiter;
    e.parked.push_back(t);
    waiter->ticket_ = std::move(t);
  }
  waiter->home_.arm_in(*waiter, park_ns);
  return answer::parked;
}

bool occupancy::share(occupancy_hold &hold, std::string_view name, uint64_t most_tokens) {
  const std::lock_guard guard(mutex_);
  occupancy_entry &e = entry_of(shares_, name);
  if (!e.fits({most_tokens, 0}, hold.tokens_)) return false;
  add(e, hold.tokens_);
  hold.share_ = &e;
  return true;
}

// The first of them that does not fit keeps those behind it waiting: it would starve otherwise.
void occupancy::admit_parked(occupancy_entry &e, std::vector<ticket_ptr> &granted) {
  while (!e.parked.empty() && e.fits(e.parked.front()->bounds, e.parked.front()->tokens)) {
    ticket_ptr t = std::move(e.parked.front());
    e.parked.pop_front();
    e.bounds = t->bounds;
    add(e, t->tokens);
    t->granted = true;
    granted.push_back(std::move(t));
  }
}

void occupancy::tell(const std::vector<ticket_ptr> &granted) {
  for (const ticket_ptr &t : granted)
    t->home->post([t] {
      if (t->owner != nullptr) t->from->arrived(t);
    });
}

void occupancy::arrived(const ticket_ptr &t) {
  occupancy_waiter *who = std::exchange(t->owner, nullptr);
  who->disarm();
  who->ticket_.reset();
  occupancy_hold hold;
  hold.owner_ = this;
  hold.model_ = t->entry;
  hold.tokens_ = t->tokens;
  who->on_room(std::move(hold));
}

void occupancy::change(occupancy_hold &hold, int64_t tokens) {
  std::vector<ticket_ptr> granted;
  {
    const std::lock_guard guard(mutex_);
    const uint64_t less = tokens < 0 ? std::min(hold.tokens_, uint64_t{0} - static_cast<uint64_t>(tokens)) : 0;
    const uint64_t more = tokens < 0 ? 0 : static_cast<uint64_t>(tokens);
    hold.tokens_ += more;
    hold.tokens_ -= less;
    for (occupancy_entry *e : {hold.model_, hold.share_}) {
      if (e == nullptr) continue;
      e->tokens += more;
      subtract(*e, less, false);
    }
    if (less > 0) admit_parked(*hold.model_, granted);
  }
  tell(granted);
}

void occupancy::give_back(occupancy_hold &hold) {
  std::vector<ticket_ptr> granted;
  {
    const std::lock_guard guard(mutex_);
    for (occupancy_entry *e : {hold.model_, hold.share_})
      if (e != nullptr) subtract(*e, hold.tokens_, true);
    admit_parked(*hold.model_, granted);
  }
  tell(granted);
}

std::vector<std::string> occupancy::crowded() const {
  std::vector<std::string> out;
  const std::lock_guard guard(mutex_);
  for (const auto &[model, e] : models_)
    if (!e.parked.empty()) out.push_back(model);
  return out;
}

void occupancy::rebound(std::string_view model, const occupancy_bounds &bounds) {
  std::vector<ticket_ptr> granted, hopeless;
  {
    const std::lock_guard guard(mutex_);
    const auto found = models_.find(model);
    if (found == models_.end()) return;
    auto &parked = found->second.parked;
    for (auto at = parked.begin(); at != parked.end();) {
      (*at)->bounds = bounds;
      if (bounds.tokens == 0 || (*at)->tokens <= bounds.tokens) {
        ++at;
        continue;
      }
      hopeless.push_back(std::move(*at));
      at = parked.erase(at);
    }
    admit_parked(found->second, granted);
  }
  for (const ticket_ptr &t : hopeless)
    t->home->post([t] {
      if (t->owner != nullptr) refused(t);
    });
  tell(granted);
}

// Its timer may have run out meanwhile; then it has left and owns nothing here.
void occupancy::refused(const ticket_ptr &t) {
  occupancy_waiter *who = t->owner;
  who->leave();
  who->on_no_room();
}

std::vector<occupancy::row> occupancy::rows() const {
  std::vector<row> out;
  {
    const std::lock_guard guard(mutex_);
    out.reserve(models_.size());
    for (const auto &[model, e] : models_) out.push_back({model, e.bounds, e.tokens, e.requests, e.parked.size()});
  }
  std::sort(out.begin(), out.end(), [](const row &a, const row &b) { return a.model < b.model; });
  return out;
}

size_t occupancy::sweep() {
  const std::lock_guard guard(mutex_);
  const uint64_t now = clock_.now();
  const auto old = [now](const auto &each) { return each.second.idle() && now - each.second.touched_ns >= idle_ns; };
  return std::erase_if(models_, old) + std::erase_if(shares_, old);
}

occupancy_hold &occupancy_hold::operator=(occupancy_hold &&other) noexcept {
  if (this == &other) return *this;
  release();
  owner_ = std::exchange(other.owner_, nullptr);
  model_ = std::exchange(other.model_, nullptr);
  share_ = std::exchange(other.share_, nullptr);
  tokens_ = std::exchange(other.tokens_, 0);
  return *this;
}

void occupancy_hold::grow(uint64_t tokens) {
  if (model_ != nullptr && tokens > 0) owner_->change(*this, static_cast<int64_t>(tokens));
}

void occupancy_hold::correct(int64_t tokens) {
  if (model_ != nullptr && tokens != 0) owner_->change(*this, tokens);
}

void occupancy_hold::release() {
  if (model_ == nullptr) return;
  owner_->give_back(*this);
  model_ = share_ = nullptr;
  tokens_ = 0;
}

void occupancy_waiter::leave() {
  const std::shared_ptr<ticket> t = std::move(ticket_);
  if (!t) return;
  disarm();
  t->owner = nullptr;
  std::vector<occupancy::ticket_ptr> granted;
  {
    const std::lock_guard guard(t->from->mutex_);
    if (t->granted) t->from->subtract(*t->entry, t->tokens, true);
    else t->entry->parked.remove(t);
    t->from->admit_parked(*t->entry, granted);
  }
  occupancy::tell(granted);
}

void occupancy_waiter::on_timer() {
  {
    const std::lock_guard guard(ticket_->from->mutex_);
    if (ticket_->granted) return;          // its message is on its way
  }
  leave();
  on_no_room();                            // may end its owner
}

}  // namespace hive::tenancy
