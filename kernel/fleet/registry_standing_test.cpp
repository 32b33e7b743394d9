#include "fleet/registry_bed.hpp"

namespace hive::fleet {
namespace {

// Naive variant: the agent's own mark is set, which a new process clears and nobody can call back.
TEST_F(registry_of_two_workers, an_operators_drain_outlasts_reconnects_and_restarts_until_it_is_called_back) {
  connect(1);
  EXPECT_FALSE(reg.set_aside("B", true)) << "nobody of that name";
  EXPECT_TRUE(reg.set_aside("A", true));
  const auto p = reg.find_pool("m");
  {
    pool_section section(*p);
    EXPECT_FALSE(p->take(0));
  }
  EXPECT_EQ(describe_standing(a()->standing()), "drained by the operator");
  EXPECT_TRUE(a()->healthy());
  connect(1);
  EXPECT_FALSE(a()->routable()) << "the same process again";
  reg.goodbye("A");
  connect(2);
  EXPECT_EQ(describe_standing(a()->standing()), "drained by the operator") << "another process";
  EXPECT_TRUE(reg.set_aside("A", false));
  EXPECT_TRUE(a()->routable());
  EXPECT_TRUE(reg.set_aside("A", true));
  reg.goodbye("A");
  EXPECT_TRUE(reg.set_aside("A", false)) << "also of one that has left";
  EXPECT_FALSE(reg.set_aside("A", false)) << "now nobody knows of it";
  connect(3);
  EXPECT_TRUE(a()->routable());
}

}  // namespace
}  // namespace hive::fleet
