#include "routing/thresholds.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <random>

#include "base/clock.hpp"
#include "routing/fleet_fixture.hpp"
#include "routing/lane.hpp"
#include "routing/scan.hpp"

namespace hive::routing {
namespace {

constexpr uint64_t start = 1000 * ns_per_s;

class thresholds : public ::testing::Test {
 protected:
  testing::test_fleet fleet_;
  std::shared_ptr<fleet::pool> pool_ = fleet_.make_pool("qwen");
  std::shared_ptr<lane> lane_ = std::make_shared<lane>(pool_, line_limits{});
  const hive_column heat_ = fleet_.columns.intern("heat");

  bound_rule rule(threshold t, hive_column id = 0, const std::string &field = "heat") {
    bound_rule r{t, id ? id : heat_, field, {}};
    if (t.leave) r.memory = lane_->memory_of("", "routing_policy", 0, field, std::to_string(t.limit) + "/" + std::to_string(*t.leave));
    return r;
  }
  void write(const std::string &name, double value, uint64_t sampled = 0, hive_column id = 0) {
    pool_->write(*fleet_.agents[name], id ? id : heat_, value, sampled, 0);
  }
  bool passes(threshold_rules &rules, const std::string &name, uint64_t now = start) {
    const std::lock_guard lock(pool_->mutex());
    const hive_pool view = pool_->view();
    return rules.passes(*pool_, view, now)[*pool_->index_of(*fleet_.agents[name])] != 0;
  }
  threshold_rules::state judge(const threshold_rules &rules, const std::string &name, uint64_t now = start) {
    const std::lock_guard lock(pool_->mutex());
    const hive_pool view = pool_->view();
    return rules.judge(rules.all()[0], view, now, *pool_->index_of(*fleet_.agents[name]));
  }
};

// Without leave it is back at 88.
TEST_F(thresholds, who_was_over_the_limit_stays_out_until_past_leave) {
  threshold_rules rules;
  rules.add(rule({comparison::gt, 90, false, 0, 80}));
  fleet_.add(pool_, "a", 1);
  const std::pair<double, bool> course[] = {{88, true}, {90, true}, {91, false}, {88, false}, {81, false}, {NAN, true},
                                            {85, false}, {80, true}, {88, true}, {90.5, false}, {79, true}};
  for (const auto &[value, pass] : course) {
    write("a", value);
    EXPECT_EQ(passes(rules, "a"), pass) << value;
    EXPECT_EQ(passes(rules, "a"), pass) << value << ", asked again";
  }
}

TEST_F(thresholds, leave_works_on_either_side_and_with_equality) {
  struct {
    threshold t;
    std::vector<std::pair<double, bool>> course;
  } cases[] = {{{comparison::gte, 3, false, 0, 1}, {{2, true}, {3, false}, {1, false}, {0, true}, {2, true}}},
               {{comparison::lt, 0.9, false, 0, 0.95}, {{0.92, true}, {0.8, false}, {0.92, false}, {0.95, true}, {0.92, true}}},
               {{comparison::lte, 5, false, 0, 7}, {{6, true}, {5, false}, {7, false}, {7.5, true}, {6, true}}}};
  fleet_.add(pool_, "a", 1);
  for (auto &one : cases) {
    threshold_rules rules;
    rules.add(rule(one.t));
    for (const auto &[value, pass] : one.course) {
      write("a", value);
      EXPECT_EQ(passes(rules, "a"), pass) << to_string(one.t.op) << " " << value;
    }
  }
}

TEST_F(thresholds, looking_changes_nothing) {
  threshold_rules rules;
  rules.add(rule({comparison::gt, 90, false, 0, 80}));
  fleet_.add(pool_, "a", 1);
  write("a", 85);
  EXPECT_TRUE(passes(rules, "a"));
  write("a", 95);
  EXPECT_TRUE(judge(rules, "a").violated);
  write("a", 85);
  EXPECT_FALSE(judge(rules, "a").violated) << "no selection saw the 95";
  EXPECT_TRUE(passes(rules, "a"));
  write("a", 95);
  EXPECT_FALSE(passes(rules, "a"));
  write("a", 85);
  const auto s = judge(rules, "a");
  EXPECT_TRUE(s.violated && s.kept_out);
  EXPECT_EQ(s.limit, 80);
  EXPECT_EQ(s.value, 85);
}

TEST_F(thresholds, memory_belongs_to_the_agent_and_not_to_its_slot) {
  threshold_rules rules;
  rules.add(rule({comparison::gt, 90, false, 0, 80}));
  for (const char *name : {"a", "b"}) {
    fleet_.add(pool_, name, 1);
    write(name, 95);
    EXPECT_FALSE(passes(rules, name));
    write(name, 85);
  }
  pool_->join(fleet_.agents["b"], fleet_.agents["b"]->info());
  EXPECT_FALSE(passes(rules, "b")) << "it registered again";
  pool_->leave(*fleet_.agents["a"]);
  fleet_.add(pool_, "c", 1);  // in the slot of a
  write("c", 85);
  EXPECT_TRUE(passes(rules, "c"));
}

TEST_F(thresholds, memory_outlives_a_reload_that_leaves_the_rule_as_it_was) {
  auto before = std::make_unique<threshold_rules>();
  before->add(rule({comparison::gt, 90, false, 0, 80}));
  fleet_.add(pool_, "a", 1);
  write("a", 95);
  EXPECT_FALSE(passes(*before, "a"));
  write("a", 85);
  threshold_rules same, other;
  same.add(rule({comparison::gt, 90, false, 0, 80}));
  other.add(rule({comparison::gt, 90, false, 0, 70}));
  before.reset();
  EXPECT_FALSE(passes(same, "a"));
  EXPECT_TRUE(passes(other, "a")) << "another rule starts anew";
}

TEST_F(thresholds, a_value_past_max_age_is_missing_until_the_next) {
  for (const bool exclude : {false, true}) {
    threshold_rules rules;
    rules.add(rule({comparison::gt, 90, exclude, 2 * ns_per_s, {}}));
    fleet_.add(pool_, "a", 1);
    write("a", 95, start);
    EXPECT_FALSE(passes(rules, "a", start + 2 * ns_per_s));
    EXPECT_EQ(passes(rules, "a", start + 2 * ns_per_s + 1), !exclude) << "no write, time alone";
    EXPECT_TRUE(judge(rules, "a", start + 3 * ns_per_s).missing);
    write("a", 95, start + 3 * ns_per_s);
    EXPECT_FALSE(passes(rules, "a", start + 3 * ns_per_s)) << "the same value, sampled again";
    write("a", 50, start + 3 * ns_per_s);
    EXPECT_TRUE(passes(rules, "a", start + 3 * ns_per_s));
  }
}

// The cached verdicts against every rule judged anew for every agent after each change: writes few and many (more than the
// journal keeps), ages, members that come and go. Forgetting the sampled times, the epoch or an overrun journal breaks it.
TEST_F(thresholds, verdicts_kept_agree_with_a_model_that_keeps_none) {
  std::mt19937 chance(11);
  const hive_column other = fleet_.columns.intern("other");
  threshold_rules rules;
  rules.add(rule({comparison::gt, 6, false, 0, {}}, other, "other"));
  rules.add(rule({comparison::gte, 7, false, 3 * ns_per_s, 4}));
  rules.add(rule({comparison::lt, 1, true, 5 * ns_per_s, {}}, other, "fresh"));
  std::map<std::string, bool> out;  // of the rule with leave, by agent
  std::vector<std::string> names;
  uint64_t now = start;
  for (int round = 0; round < 6000; ++round) {
    now += chance() % (ns_per_s / 10);
    const uint32_t what = chance() % 100;
    if (names.size() < 3 || (what < 2 && names.size() < 400)) {
      names.push_back("agent" + std::to_string(round));
      fleet_.add(pool_, names.back(), 1);
    } else if (what < 3) {
      const size_t k = chance() % names.size();
      pool_->leave(*fleet_.agents[names[k]]);
      out.erase(names[k]);
      names.erase(names.begin() + static_cast<std::ptrdiff_t>(k));
    } else {
      for (uint32_t n = what == 99 ? 600 : 1 + chance() % 3; n > 0; --n) {
        const uint64_t sampled = now - chance() % (2 * ns_per_s);
        write(names[chance() % names.size()], chance() % 10 == 0 ? NAN : chance() % 10, sampled, chance() % 2 ? heat_ : other);
      }
    }
    if (chance() % 3 == 0) continue;  // several changes between two selections
    const std::lock_guard lock(pool_->mutex());
    const hive_pool view = pool_->view();
    const uint8_t *const passes = rules.passes(*pool_, view, now);
    for (const std::string &name : names) {
      const uint32_t i = *pool_->index_of(*fleet_.agents[name]);
      bool want = true;
      for (const bound_rule &r : rules.all()) {
        const double v = pool_->value(r.column, i);
        const bool known = r.column < view.column_count && view.sampled_ns[r.column];
        const uint64_t sampled = known ? view.sampled_ns[r.column][i] : 0;
        const bool missing = std::isnan(v) || (r.bound.max_age_ns && sampled && now - sampled > r.bound.max_age_ns);
        const double limit = r.bound.leave && out[name] ? *r.bound.leave : r.bound.limit;
        const bool bad = r.bound.op == comparison::gt ? v > limit : r.bound.op == comparison::gte ? v >= limit : v < limit;
        if (r.bound.leave && !missing) out[name] = bad;
        want = want && !(missing ? r.bound.exclude_missing : bad);
      }
      ASSERT_EQ(passes[i] != 0, want) << name << " in round " << round;
    }
  }
}

TEST(row_journal, tells_each_reader_what_came_since_it_looked_or_that_it_cannot) {
  fleet::row_journal j;
  uint64_t one = 0, other = 0;
  std::vector<uint32_t> rows;
  const auto read = [&](uint64_t &seen) {
    rows.clear();
    return j.since(seen, [&](uint32_t r, hive_column) { rows.push_back(r); });
  };
  j.note(3);
  j.note(3);
  EXPECT_TRUE(read(one));
  EXPECT_EQ(rows, std::vector<uint32_t>{3});
  j.note(3);
  EXPECT_TRUE(read(one));
  EXPECT_EQ(rows, std::vector<uint32_t>{3}) << "written after it was read";
  EXPECT_TRUE(read(other));
  EXPECT_EQ(rows, (std::vector<uint32_t>{3, 3}));
  for (uint32_t i = 0; i < fleet::row_journal::room; ++i) j.note(i);
  EXPECT_TRUE(read(one));
  EXPECT_EQ(rows.size(), fleet::row_journal::room);
  for (uint32_t i = 0; i <= fleet::row_journal::room; ++i) j.note(i);
  EXPECT_FALSE(read(one));
  EXPECT_TRUE(rows.empty());
  EXPECT_TRUE(read(one));
  j.note(5, 7);
  EXPECT_TRUE(read(one));
  EXPECT_TRUE(rows.empty()) << "a column that nobody follows";
  j.follow(7);
  j.note(5, 7);
  EXPECT_TRUE(read(one));
  EXPECT_EQ(rows, std::vector<uint32_t>{5});
}

}  // namespace
}  // namespace hive::routing
