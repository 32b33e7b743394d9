#include "block_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>

namespace hive::prefix_affinity {
namespace {

// The same in the plainest words: a list in order of use.
class plain_memory {
 public:
  explicit plain_memory(size_t limit) : limit_(limit) {}
  bool has(uint64_t b) const { return std::find(order_.begin(), order_.end(), b) != order_.end(); }
  uint32_t match(const std::vector<uint64_t> &path) const {
    uint32_t n = 0;
    while (n < path.size() && has(path[n])) ++n;
    return n;
  }
  void touch(const std::vector<uint64_t> &path) {
    for (size_t i = std::min(path.size(), limit_); i-- > 0;) {
      order_.remove(path[i]);
      order_.push_front(path[i]);
      if (order_.size() > limit_) order_.pop_back();
    }
  }
  void set_limit(size_t limit) {
    limit_ = limit;
    while (order_.size() > limit_) order_.pop_back();
  }
  size_t size() const { return order_.size(); }

 private:
  size_t limit_;
  std::list<uint64_t> order_;
};

// A path of a random tree: equal hashes only for equal prefixes, as chained hashes are.
std::vector<uint64_t> random_path(std::minstd_rand &random, size_t longest, uint64_t branches) {
  std::vector<uint64_t> path(random() % (longest + 1));
  uint64_t chain = 0;
  for (uint64_t &block : path) {
    chain = (chain + 1 + random() % branches) * 0xD1B54A32D192ED03u;
    block = chain ^ chain >> 29;
  }
  return path;
}

TEST(block_memory, matches_and_forgets_like_a_plain_list) {
  for (const uint32_t limit : {1u, 2u, 7u, 64u, 300u}) {
    std::minstd_rand random(limit);
    block_memory fast(limit);
    plain_memory plain(limit);
    for (int i = 0; i < 3000; ++i) {
      const auto path = random_path(random, 24, 3);
      ASSERT_EQ(fast.match(path), plain.match(path)) << "limit " << limit << " step " << i;
      if (random() % 2 == 0) {
        fast.touch(path);
        plain.touch(path);
      }
      ASSERT_EQ(fast.size(), plain.size());
      ASSERT_LE(fast.size(), limit);
    }
  }
}

// A place freed in the middle of a run of collisions, without moving up what stands behind it, loses blocks here.
TEST(block_memory, keeps_blocks_that_collide) {
  block_memory fast(40);
  plain_memory plain(40);
  std::minstd_rand random(5);
  constexpr uint64_t inverse = 0xF1DE83E19937733Du;  // of the multiplier: these homes lie four and four in one short stretch
  static_assert(inverse * 0x9E3779B97F4A7C15u == 1);
  for (int i = 0; i < 20'000; ++i) {
    const std::vector<uint64_t> one{((random() % 90) << 55 | 1) * inverse};
    ASSERT_EQ(fast.match(one), plain.match(one)) << i;
    fast.touch(one);
    plain.touch(one);
  }
}

TEST(block_memory, a_lower_limit_keeps_the_most_recent) {
  std::minstd_rand random(3);
  block_memory fast(200);
  plain_memory plain(200);
  for (int i = 0; i < 200; ++i) {
    const auto path = random_path(random, 12, 4);
    fast.touch(path);
    plain.touch(path);
  }
  for (const uint32_t limit : {90u, 120u, 17u, 0u, 50u}) {
    fast.set_limit(limit);
    plain.set_limit(limit);
    ASSERT_EQ(fast.size(), plain.size());
    for (int i = 0; i < 200; ++i) {
      const auto path = random_path(random, 12, 4);
      ASSERT_EQ(fast.match(path), plain.match(path)) << limit;
    }
  }
  const std::vector<uint64_t> path{1, 2, 3};
  fast.touch(path);
  EXPECT_EQ(fast.match(path), 3u);
}

TEST(block_memory, of_a_path_longer_than_its_limit_keeps_the_root) {
  block_memory m(4);
  const std::vector<uint64_t> path{11, 12, 13, 14, 15, 16, 17};
  m.touch(path);
  EXPECT_EQ(m.match(path), 4u);
}

}  // namespace
}  // namespace hive::prefix_affinity
