#include "routing/queue.hpp"

#include <algorithm>
#include <cassert>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "routing/column_readers.hpp"
#include "routing/turnover.hpp"

namespace hive::routing {
namespace {

constexpr size_t max_passed = 16;       // agents remembered that went to later tickets; beyond it, "some that fits"
constexpr size_t prune_from = 1024;      // tenants that owe nothing are forgotten from here on
constexpr size_t most_spare = 256;       // states kept for tickets to come
constexpr size_t most_tenants = 65536;  // beyond it idle ones are forgotten with their debt

}  // namespace

// Guarded by the pool's lock. `finder` and `life` change on the owner's loop only, which may so read them without it.
struct ticket::state : std::enable_shared_from_this<ticket::state> {
  struct tenant {
    uint64_t charged = 0;
    size_t waiting = 0;
  };
  waiting_line *line = nullptr;         // where its number is from
  candidate_finder *finder = nullptr;   // null = not in the line
  post_fn post;
  ticket_class cls;
  tenant *owner = nullptr;              // while it is in the line; null without fairness
  uint64_t number = 0;
  uint64_t generation = 0;              // of its last wake
  uint64_t life = 0;                    // rises when it enters and when it leaves
  uint64_t tried_at = 0;                // change number its funnel last failed at
  size_t bytes = 0;
  size_t position = 0;                  // in the line's vector
  uint64_t since_ns = 0;                // when it began to wait; 0 = it did not, and no clock was read for it
  uint64_t waited_ns = 0;
  uint64_t retry_after_ns = 0;
  line_refusal refused = line_refusal::none;
  uint32_t index = 0;
  bool in_line = false;
  bool woken = false;                   // a wake is out
  bool recheck = false;                 // its verdict is stale: it may have to advance
  bool lost = false;                    // a later ticket got an agent that fits it
  bool passed_many = false;
  std::vector<std::pair<uint32_t, uint64_t>> passed;  // {index, agent key} given to later tickets while it was untried
  column_readers::column_set reads;
  column_readers::column_set reads_rise;
  std::span<const aged_column> ages;
};

class waiting_line::impl {
 public:
  using state = ticket::state;
  using tenant = state::tenant;

  impl(waiting_line &owner, fleet::pool &p, const line_limits &limits, const clock_source *clock)
      : owner_(owner), pool_(p), limits_(limits), clock_(clock != nullptr ? *clock : system_clock()) {}

  bool untried(const state &s) const { return s.tried_at != change_; }

  // The pool's order: lost first, then priority, the tenant charged least, number.
  bool before(const state &a, const state &b) const {
    if (a.lost != b.lost) return a.lost;
    if (!a.lost) {
      if (a.cls.priority != b.cls.priority) return a.cls.priority > b.cls.priority;
      if (a.owner != b.owner && a.owner->charged != b.owner->charged) return a.owner->charged < b.owner->charged;
    }
    return a.number < b.number;
  }

  // The first of the tickets that satisfy `ok`; null = none.
  template <class F>
  state *first(F ok) const {
    state *best = nullptr;
    for (state *s : line_) {
      if (ok(*s) && (best == nullptr || before(*s, *best))) best = s;
    }
    return best;
  }

  size_t untried_count() const { return line_.size() - tried_; }
  state *next() const {
    return untried_count() == 0 ? nullptr : first([this](const state &s) { return untried(s); });
  }
  // A newcomer must be the first; one that was woken may pass others, but not a lost ticket whose turn has not come.
  bool may_take(const state &s, bool entering) const {
    if (!entering && lost_ == 0) return true;
    const state *n = next();
    return n == &s || (!entering && !n->lost);
  }

  void insert(state &s) {
    s.tried_at = 0;
    s.woken = s.recheck = s.lost = s.passed_many = false;
    s.passed.clear();
    ++s.life;
    s.in_line = true;
    s.position = line_.size();
    s.since_ns = 0;
    s.refused = line_refusal::none;
    s.retry_after_ns = 0;
    line_.push_back(&s);
    bytes_ += s.bytes;
    if (limits_.tenant_fairness) {
      auto found = tenants_.find(s.cls.tenant);
      if (found == tenants_.end()) found = tenants_.emplace(std::string(s.cls.tenant), tenant()).first;
      s.owner = &found->second;
      if (s.owner->waiting++ == 0) s.owner->charged = std::max(s.owner->charged, virtual_time_);
    }
    s.cls.tenant = {};
  }

  void remove(state &s) {
    assert(s.in_line);
    line_.back()->position = s.position;
    std::swap(line_[s.position], line_.back());
    line_.pop_back();
    bytes_ -= s.bytes;
    if (!untried(s)) --tried_;
    if (s.woken) --wakes_out_;
    if (s.lost) --lost_;
    if (s.recheck) --rechecks_;
    if (s.recheck && s.woken) --recheck_wakes_out_;
    if (s.since_ns != 0) forget_reads(s);
    s.in_line = s.woken = s.recheck = s.lost = false;
    s.finder = nullptr;
    ++s.life;
    s.waited_ns = s.since_ns != 0 ? clock_.now() - s.since_ns : 0;
    if (line_.empty()) turnover_.emptied();
    if (s.owner == nullptr) return;
    --std::exchange(s.owner, nullptr)->waiting;
    if (tenants_.size() <= prune_at_) return;
    std::erase_if(tenants_, [this](const auto &t) { return t.second.waiting == 0 && t.second.charged <= virtual_time_; });
    if (tenants_.size() > most_tenants) std::erase_if(tenants_, [](const auto &t) { return t.second.waiting == 0; });
    prune_at_ = std::max(prune_from, 2 * tenants_.size());
  }

  void charge(const state &s) {
    if (s.owner == nullptr) return;
    virtual_time_ = s.owner->charged = std::max(s.owner->charged, virtual_time_);
    s.owner->charged += std::max<uint64_t>(1, s.cls.cost);
  }

  // Entering allocates nothing once the line is warm: a state that no wake on its way holds any more serves the next ticket.
  std::shared_ptr<state> fresh() {
    if (spare_.empty()) return std::make_shared<state>();
    std::shared_ptr<state> s = std::move(spare_.back());
    spare_.pop_back();
    return s;
  }
  void keep(std::shared_ptr<state> s) {
    if (s.use_count() != 1 || spare_.size() >= most_spare) return;
    s->line = nullptr;
    s->post = nullptr;
    s->waited_ns = 0;
    spare_.push_back(std::move(s));
  }

  // A later ticket takes `index`: those before it that have not had their turn remember.
  void note_passed(const state &taker, uint32_t index) {
    if (untried_count() == 0) return;
    const uint64_t key = pool_.row(index).who->key();
    for (state *s : line_) {
      if (s == &taker || !untried(*s) || !before(*s, taker)) continue;
      if (s->passed.size() >= max_passed) {
        s->passed_many = true;
      } else {
        s->passed.emplace_back(index, key);
      }
    }
  }

  bool was_passed(state &s) {
    if (s.passed_many) return true;
    return std::any_of(s.passed.begin(), s.passed.end(), [&](const auto &p) {
      if (p.first >= pool_.count()) return false;
      const fleet::pool_row &row = pool_.row(p.first);
      return row.who != nullptr && row.who->key() == p.second && s.finder->fits(pool_, p.first);
    });
  }

  // Its funnel has failed at the present change number for want of capacity.
  void mark_tried(state &s) {
    if (!s.lost && was_passed(s)) {
      s.lost = true;
      ++lost_;
    }
    s.passed.clear();
    s.passed_many = false;
    if (untried(s)) ++tried_;
    s.tried_at = change_;
    clear_recheck(s);
  }

  void clear_recheck(state &s) {
    if (!s.recheck) return;
    s.recheck = false;
    --rechecks_;
  }

  // The funnel and, where it may, the slot. `s` is in the line and has no wake out.
  entered attempt(state &s, bool entering, bool may_wait) {
    const bool allowed = may_take(s, entering);
    funnel_result r = s.finder->find(pool_);
    while (r.what == verdict::chosen && allowed) {
      if (pool_.take(r.index, s.cls.tokens)) return grant(s, r.index, entering);
      r = s.finder->find(pool_);        // it filled up meanwhile and its row says so now
    }
    if (r.what == verdict::none) {
      remove(s);
      return entered::advance;
    }
    if (entering && r.what == verdict::full) s.finder->on_full(pool_);
    if (entering && may_wait) judge_wait(s);
    if (!may_wait || s.refused != line_refusal::none) {
      remove(s);
      return entered::advance;
    }
    if (r.what == verdict::full) {
      mark_tried(s);
    } else {
      clear_recheck(s);                 // stays ready: somebody goes first
    }
    if (entering) {
      ++stats_.entered;
      s.since_ns = clock_.now();
      learn_reads(s);
    }
    return entered::waiting;
  }

  // A newcomer needs gap * (those before it + 1) for its slot, and for its answer one gap at least: with n slots at work an answer takes n
  // gaps. The first in the line always waits: its slot is how the gap is learned anew.
  void judge_wait(state &s) {
    const uint64_t now = clock_.now();
    const uint64_t gap = turnover_.gap_ns(now);
    if (line_.size() > limits_.depth || bytes_ > limits_.bytes) {
      s.refused = line_refusal::full;
      s.retry_after_ns = gap;
      ++stats_.refused_full;
      return;
    }
    if (gap == 0 || s.cls.deadline_ns == 0) return;
    const auto ahead = static_cast<uint64_t>(std::count_if(line_.begin(), line_.end(), [&](const state *o) { return o != &s && before(*o, s); }));
    const uint64_t left = s.cls.deadline_ns > now ? s.cls.deadline_ns - now : 0;
    const uint64_t needed = (ahead + 2) * gap;
    if (ahead == 0 || needed <= left) return;
    s.refused = line_refusal::late;
    s.retry_after_ns = needed - left;
    ++stats_.refused_late;
  }

  entered grant(state &s, uint32_t index, bool entering) {
    note_passed(s, index);
    if (!entering) {
      const uint64_t now = clock_.now();
      turnover_.granted(now, now - s.since_ns, line_.size() > 1);
    }
    s.index = index;
    candidate_finder *finder = s.finder;
    charge(s);
    remove(s);
    if (!entering) ++stats_.granted_after_wait;
    finder->on_taken(pool_, index);
    return entered::taken;
  }

  void wake(state &s) {
    assert(s.in_line && !s.woken);
    s.woken = true;
    ++wakes_out_;
    if (s.recheck) ++recheck_wakes_out_;
    ++s.generation;
    ++stats_.wakes;
    to_post_.push_back(&s);
  }

  void arrived(state &s) {
    s.woken = false;
    --wakes_out_;
    if (s.recheck) --recheck_wakes_out_;
  }

  // Whether there is something to post.
  bool settle() {
    if (line_.empty()) return false;
    while (wakes_out_ < pool_.free_slots() && untried_count() > wakes_out_) {
      state *s = nullptr;
      if (lost_ > 0) {
        s = next();
        if (s->lost && s->woken) break;
        if (!s->lost) s = nullptr;
      }
      if (s == nullptr) s = first([this](const state &t) { return untried(t) && !t.woken; });
      wake(*s);
    }
    if (rechecks_ > 0 && recheck_wakes_out_ == 0) {
      if (state *s = first([](const state &t) { return t.recheck && !t.woken; })) wake(*s);
    }
    return !to_post_.empty();
  }

  void bump() {
    ++change_;
    tried_ = 0;
  }

  void recheck_all() {
    bump();
    for (state *s : line_) {
      if (s->recheck) continue;
      s->recheck = true;
      ++rechecks_;
      if (s->woken) ++recheck_wakes_out_;
    }
  }

  // Only a ticket that stays is asked; one that is served at once costs nothing here.
  void learn_reads(state &s) {
    for (hive_column id = 1; id < column_readers::columns; ++id) {
      if (s.finder->reads(id)) s.reads.set(id);
      if (s.finder->reads_rise(id)) s.reads_rise.set(id);
    }
    s.reads |= s.reads_rise;
    s.ages = s.finder->ages();
    count_reads(s, 1);
  }
  void forget_reads(state &s) {
    count_reads(s, -1);
    s.reads.reset();
    s.reads_rise.reset();
    s.ages = {};
  }
  void count_reads(const state &s, int by) {
    readers_.count(s.reads, s.reads_rise, s.ages, by);
    owner_.reads_any_ = readers_.any();
  }

  waiting_line &owner_;
  fleet::pool &pool_;
  const line_limits limits_;
  const clock_source &clock_;
  turnover turnover_;
  std::vector<state *> line_;           // in no order; the order is before()
  std::unordered_map<std::string, tenant, text_hash, std::equal_to<>> tenants_;
  uint64_t virtual_time_ = 0;           // what the tenant served last had been charged before
  size_t prune_at_ = prune_from;
  uint64_t change_ = 1;
  uint64_t numbers_ = 0;
  size_t tried_ = 0, lost_ = 0, wakes_out_ = 0, rechecks_ = 0, recheck_wakes_out_ = 0;
  size_t bytes_ = 0;
  std::vector<state *> to_post_;
  column_readers readers_;
  uint64_t last_tick_ns_ = 0;
  line_stats stats_;
  std::vector<std::shared_ptr<state>> spare_;
};

ticket::~ticket() {
  if (state_ && state_->line != nullptr) state_->line->forget(*this);
}
uint32_t ticket::index() const { return state_ ? state_->index : 0; }
bool ticket::waiting() const { return state_ && state_->finder != nullptr; }
uint64_t ticket::waited_ns() const { return state_ ? state_->waited_ns : 0; }
line_refusal ticket::refused() const { return state_ ? state_->refused : line_refusal::none; }
uint64_t ticket::retry_after_ns() const { return state_ ? state_->retry_after_ns : 0; }

waiting_line::waiting_line(fleet::pool &p, const line_limits &limits, const clock_source *clock)
    : impl_(std::make_unique<impl>(*this, p, limits, clock)) {
  reads_any_ = false;
  std::lock_guard lock(p.mutex());
  p.set_watcher(this);
}

waiting_line::~waiting_line() {
  std::lock_guard lock(impl_->pool_.mutex());
  impl_->pool_.set_watcher(nullptr);
  while (!impl_->line_.empty()) {
    ticket::state &s = *impl_->line_.back();
    impl_->remove(s);
    s.line = nullptr;
  }
}

entered waiting_line::enter(ticket &t, candidate_finder &finder, const ticket_class &cls, size_t body_bytes, post_fn post,
                            bool may_wait) {
  fleet::pool_section section(impl_->pool_);
  if (!t.state_) t.state_ = impl_->fresh();
  ticket::state &s = *t.state_;
  if (s.in_line) impl_->remove(s);
  if (s.line != this) {
    s.line = this;
    s.number = ++impl_->numbers_;
  }
  s.finder = &finder;
  s.cls = cls;
  s.bytes = body_bytes;
  s.post = std::move(post);
  impl_->insert(s);
  return impl_->attempt(s, true, may_wait);
}

entered waiting_line::run(ticket &t, uint64_t generation) {
  fleet::pool_section section(impl_->pool_);
  ticket::state &s = *t.state_;
  if (!s.in_line || !s.woken || s.generation != generation) return entered::waiting;
  impl_->arrived(s);
  return impl_->attempt(s, false, true);
}

void waiting_line::cancel(ticket &t) {
  if (!t.waiting()) return;
  fleet::pool_section section(impl_->pool_);
  impl_->remove(*t.state_);
}

// A ticket that had its slot long ago changes nothing of the pool: there is nothing to settle then.
void waiting_line::forget(ticket &t) {
  cancel(t);
  const std::lock_guard lock(impl_->pool_.mutex());
  impl_->keep(std::move(t.state_));
}

line_stats waiting_line::stats() const {
  std::lock_guard lock(impl_->pool_.mutex());
  line_stats s = impl_->stats_;
  s.depth = impl_->line_.size();
  s.bytes = impl_->bytes_;
  s.gap_ns = impl_->turnover_.gap_ns(impl_->clock_.now());
  return s;
}

void waiting_line::on_more_slots() { impl_->bump(); }
void waiting_line::on_standing_changed() { impl_->recheck_all(); }
bool waiting_line::settle() { return impl_->settle(); }

void waiting_line::take_deferred(fleet::deferred_calls &out) {
  for (ticket::state *s : impl_->to_post_) {
    // The wake keeps the state alive, not the ticket: when it arrives the ticket may be gone, or be in another life.
    out.push_back([state = s->shared_from_this(), post = s->post, life = s->life, generation = s->generation] {
      post([state, life, generation] {
        if (state->life == life) state->finder->on_wake(generation);
      });
    });
  }
  impl_->to_post_.clear();
}

uint64_t waiting_line::shortest_max_age(hive_column id) const {
  return impl_->readers_.shortest_max_age(id);
}

bool waiting_line::changed_by_time(uint64_t now_ns) {
  const uint64_t before = std::exchange(impl_->last_tick_ns_, now_ns);
  return impl_->readers_.aged_between(impl_->pool_, before, now_ns);
}

bool waiting_line::reads(hive_column id, bool load_went_up) const {
  return impl_->readers_.reads(id, load_went_up);
}

}  // namespace hive::routing
