#include "routing/unpublished.hpp"

#include <gmock/gmock.h>

#include "routing/session_bed.hpp"

namespace hive::routing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class unpublished : public testing::sessions {
 protected:
  void look(uint64_t in_ns) { columns_.look(*router_->policies(), fleet_.columns, now_ns() + in_ns, recorder_); }
  unpublished_columns columns_;
};

constexpr const char *reads_heat = "routing_policy: {strategy: least-loaded, exclude_if: {gpu_temperature_c: {gt: 85}, success_rate: {lt: 0.5}}}";

TEST_F(unpublished, a_column_read_and_never_published_is_told_once_after_a_minute) {
  start(reads_heat);
  look(61 * ns_per_s);
  EXPECT_TRUE(columns_.list().empty()) << "nobody is there who could";
  fleet_.add(pool_, "a", 1);
  look(59 * ns_per_s);
  EXPECT_TRUE(recorder_.lines.empty());
  look(61 * ns_per_s);
  look(62 * ns_per_s);
  ASSERT_THAT(recorder_.lines, SizeIs(1));
  for (const char *piece : {"qwen", "gpu_temperature_c", "60 s", "field 'gpu_temperature_c' of step 'routing_policy'"})
    EXPECT_THAT(recorder_.lines[0], HasSubstr(piece));
  ASSERT_THAT(columns_.list(), SizeIs(1));
  EXPECT_EQ(columns_.list()[0].column, "gpu_temperature_c");
}

// Asking only whether it was ever published would keep silent about an engine that was upgraded and lost it.
TEST_F(unpublished, it_is_told_again_when_it_was_published_in_between) {
  start(reads_heat);
  fleet_.add(pool_, "a", 1);
  look(61 * ns_per_s);
  fleet_.signal(*pool_, "a", "gpu_temperature_c", 50);
  look(59 * ns_per_s);
  EXPECT_TRUE(columns_.list().empty());
  fleet_.signal(*pool_, "a", "gpu_temperature_c", NAN);
  look(61 * ns_per_s);
  EXPECT_THAT(recorder_.lines, SizeIs(2));
}

TEST_F(unpublished, a_policy_that_reads_nothing_of_it_is_no_reason) {
  start(reads_heat);
  fleet_.add(pool_, "a", 1);
  look(61 * ns_per_s);
  load(testing::plain);
  look(62 * ns_per_s);
  EXPECT_TRUE(columns_.list().empty());
}

}  // namespace
}  // namespace hive::routing
