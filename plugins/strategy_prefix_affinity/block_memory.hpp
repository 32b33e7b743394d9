// What one agent's prefix cache is believed to hold: the prompt blocks sent to it, the least recently sent forgotten first.
//
// A block's hash is chained over all blocks before it and so stands for a whole prefix: a set of hashes is a prefix tree. A
// path is entered from its end to its root, which leaves every block older than its parent; what is forgotten is therefore
// always a leaf, a block is never there without its parent, and the length of a match is found by halving.
//
// Grows with its use and up to its limit: 16 bytes a block and 8 to 16 for the index. Lookups never allocate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace hive::prefix_affinity {

class block_memory {
 public:
  block_memory() = default;
  explicit block_memory(uint32_t limit) : limit_(limit) {}

  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }
  uint32_t limit() const { return limit_; }
  bool has(uint64_t block) const { return !nodes_.empty() && index_[place_of(block)] != 0; }

  // How many of the path's blocks, from its root on, are there.
  uint32_t match(std::span<const uint64_t> path) const {
    if (path.empty() || !has(path[0])) return 0;
    size_t there = 1, missing = path.size() + 1;
    for (size_t step = 1; there + step < missing; step *= 2) {
      if (!has(path[there + step - 1])) {
        missing = there + step;
        break;
      }
      there += step;
    }
    while (missing - there > 1) {
      const size_t half = there + (missing - there) / 2;
      if (half <= path.size() && has(path[half - 1])) there = half;
      else missing = half;
    }
    return static_cast<uint32_t>(there);
  }

  // The path was sent. Of one longer than the limit its first blocks are kept.
  void touch(std::span<const uint64_t> path) {
    for (size_t i = std::min<size_t>(path.size(), limit_); i-- > 0;) enter(path[i]);
  }

  // Keeps the most recent ones and gives memory back when the limit falls.
  void set_limit(uint32_t limit) {
    if (limit == limit_) return;
    limit_ = limit;
    if (size() <= limit) return;
    std::vector<uint64_t> kept;
    for (uint32_t at = newest_; at != none && kept.size() < limit; at = nodes_[at].older) kept.push_back(nodes_[at].block);
    nodes_ = {};
    index_ = {};
    newest_ = oldest_ = none;
    for (size_t i = kept.size(); i-- > 0;) enter(kept[i]);
  }

 private:
  static constexpr uint32_t none = UINT32_MAX;
  struct node {
    uint64_t block;
    uint32_t newer, older;
  };

  size_t home_of(uint64_t block) const { return static_cast<size_t>(block * 0x9E3779B97F4A7C15u >> shift_); }
  size_t next(size_t place) const { return (place + 1) & (index_.size() - 1); }
  // Where the block's node stands in the index, or the free place where it would.
  size_t place_of(uint64_t block) const {
    size_t at = home_of(block);
    while (index_[at] != 0 && nodes_[index_[at] - 1].block != block) at = next(at);
    return at;
  }

  void enter(uint64_t block) {
    if (limit_ == 0) return;
    if (index_.empty()) grow();
    if (const uint32_t found = index_[place_of(block)]; found != 0) {
      unlink(found - 1);
      return put_in_front(found - 1);
    }
    uint32_t fresh = size();
    if (fresh < limit_) {
      if ((size_t{fresh} + 1) * 2 > index_.size()) grow();
      nodes_.push_back({});
    } else {
      fresh = oldest_;
      unlink(fresh);
      forget(place_of(nodes_[fresh].block));
    }
    nodes_[fresh].block = block;
    index_[place_of(block)] = fresh + 1;
    put_in_front(fresh);
  }

  void grow() {
    const size_t places = std::max<size_t>(64, index_.size() * 2);
    index_.assign(places, 0);
    shift_ = 64;
    for (size_t n = places; n > 1; n /= 2) --shift_;
    for (uint32_t i = 0; i < size(); ++i) index_[place_of(nodes_[i].block)] = i + 1;
  }

  // Linear probing without tombstones: what stands behind the gap and belongs before it moves up.
  void forget(size_t gap) {
    for (size_t at = next(gap); index_[at] != 0; at = next(at)) {
      const size_t home = home_of(nodes_[index_[at] - 1].block);
      const size_t mask = index_.size() - 1;
      if (((at - home) & mask) < ((at - gap) & mask)) continue;
      index_[gap] = index_[at];
      gap = at;
    }
    index_[gap] = 0;
  }

  void unlink(uint32_t n) {
    const node &it = nodes_[n];
    (it.newer == none ? newest_ : nodes_[it.newer].older) = it.older;
    (it.older == none ? oldest_ : nodes_[it.older].newer) = it.newer;
  }
  void put_in_front(uint32_t n) {
    nodes_[n].newer = none;
    nodes_[n].older = newest_;
    (newest_ == none ? oldest_ : nodes_[newest_].newer) = n;
    newest_ = n;
  }

  uint32_t limit_ = 0;
  uint32_t newest_ = none, oldest_ = none;
  unsigned shift_ = 64;
  std::vector<node> nodes_;
  std::vector<uint32_t> index_;   // node + 1; 0 = free; a power of two, at most half full
};

}  // namespace hive::prefix_affinity
