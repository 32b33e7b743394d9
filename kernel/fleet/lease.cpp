#include "fleet/lease.hpp"

#include <utility>

namespace hive::fleet {

lease::lease(std::shared_ptr<agent> who, std::shared_ptr<const agent_info> info, const std::shared_ptr<pool> &chosen_in, uint64_t tokens)
    : who_(std::move(who)), info_(std::move(info)), generation_(who_->generation()), tokens_(tokens) {
  const std::shared_ptr<const pool_list> pools = who_->pools();
  for (const std::shared_ptr<pool> &p : *pools) {
    if (p != chosen_in) p->refresh(*who_);
  }
}

lease::lease(lease &&other) noexcept
    : who_(std::move(other.who_)),
      info_(std::move(other.info_)),
      generation_(other.generation_),
      tokens_(std::exchange(other.tokens_, 0)) {
  other.who_ = nullptr;
}

lease &lease::operator=(lease &&other) noexcept {
  if (this == &other) return *this;
  reset();
  who_ = std::exchange(other.who_, nullptr);
  info_ = std::move(other.info_);
  generation_ = other.generation_;
  tokens_ = std::exchange(other.tokens_, 0);
  return *this;
}

void lease::reset() {
  const std::shared_ptr<agent> who = std::exchange(who_, nullptr);
  if (!who) return;
  if (tokens_ != 0) who->active_tokens.fetch_sub(std::exchange(tokens_, 0), std::memory_order_relaxed);
  who->slots.give_back();
  // In a fixed order the pool visited first would win every slot (docs/waiting.md, P10).
  const std::shared_ptr<const pool_list> pools = who->pools();
  const size_t n = pools->size();
  if (n > 0) {
    const size_t first = n == 1 ? 0 : who->next_pool_.fetch_add(1, std::memory_order_relaxed) % n;
    for (size_t i = 0; i < n; ++i) (*pools)[(first + i) % n]->refresh(*who);
  }
  info_ = nullptr;
}

}  // namespace hive::fleet
