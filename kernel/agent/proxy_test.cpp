#include "agent/proxy.hpp"

#include <gtest/gtest.h>

namespace hive::agent {
namespace {

TEST(proxy, slots_are_never_given_beyond_capacity) {
  slot_count slots(2);
  EXPECT_TRUE(slots.take());
  EXPECT_TRUE(slots.take());
  EXPECT_FALSE(slots.take());
  slots.give_back();
  EXPECT_TRUE(slots.take());
}

}  // namespace
}  // namespace hive::agent
