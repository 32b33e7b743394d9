// The documents of a running router: start, reload, writes through the admin API and what the storage keeps of them.
#include "routing/policy_library.hpp"

#include "routing/fleet_fixture.hpp"
#include "routing/plugin_fixture.hpp"
#include "routing/policy_bed.hpp"
#include "routing/policy_trial.hpp"

namespace hive::routing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::document_for;
using testing::everybody;
using testing::nobody;

// Answers when it is told to, as a storage does.
struct fake_policy_store final : policy_store {
  result<std::vector<policy_record>> read_all() override {
    if (broken) return fail(errc::unavailable, "broken");
    std::vector<policy_record> out;
    for (const auto &[key, value] : records) out.push_back(*decode(key, value));
    return out;
  }
  void write(const policy_record &r, done_fn done) override {
    jobs.push_back([this, r, done] { answer(done, [&] { records[record_key(r.name)] = encode(r); }); });
  }
  void erase(const std::string &name, done_fn done) override { jobs.push_back([this, name, done] { answer(done, [&] { records.erase(record_key(name)); }); }); }
  template <class F>
  void answer(const done_fn &done, F &&act) {
    if (broken) return done(fail(errc::exhausted, "disk full"));
    act();
    done({});
  }
  void work() {
    while (!jobs.empty()) {
      const auto job = std::move(jobs.front());
      jobs.pop_front();
      job();
    }
  }
  std::map<std::string, std::string> records;
  std::deque<std::function<void()>> jobs;
  bool broken = false;
};

struct policies_of_a_router : testing::policy_bed {
  void open(bool strict = false, bool keep = true) {
    routing = std::make_unique<router>(source, fleet.columns, outcomes, router_options{});
    if (pool) {
      ASSERT_TRUE(routing->add_pool(pool).ok());
    }
    library = std::make_unique<policy_library>(policy_library::surroundings{
        .routing = *routing, .places = places, .rules = {source, judge, strict}, .check_all = check_all, .store = keep ? &store : nullptr,
        .count = [this](std::string_view trigger, bool good) { counted.push_back(std::string(trigger) + (good ? " success" : " error")); }});
  }
  void start(bool strict = false, bool keep = true) {
    open(strict, keep);
    const status s = library->start();
    ASSERT_TRUE(s.ok()) << s.text();
  }
  status put(const std::string &name, const std::string &text, const std::string &if_match = {}) {
    status answer = fail(errc::internal, "no answer");
    library->put({name, text, if_match, "a test"}, [&](const status &s) { answer = s; });
    store.work();
    return answer;
  }
  status erase(const std::string &name) {
    status answer = fail(errc::internal, "no answer");
    library->erase({name, "", "", "a test"}, [&](const status &s) { answer = s; });
    store.work();
    return answer;
  }
  int64_t tries(const std::string &model) const { return routing->policies()->document_for(model)->steps[0].max_tries; }

  policy_places places{.file = {}, .folder = folder.path().string()};
  policy_judge judge;
  std::function<status(const policy_set &)> check_all;
  testing::test_fleet fleet;
  std::shared_ptr<fleet::pool> pool;
  nobody outcomes;
  fake_policy_store store;
  std::unique_ptr<router> routing;
  std::unique_ptr<policy_library> library;
  std::vector<std::string> counted;
};

TEST_F(policies_of_a_router, a_bad_global_policy_stops_the_start_and_a_bad_named_one_only_when_strict) {
  write("_default.yaml", "routing_policy: {strategy: nonsense}");
  open();
  EXPECT_THAT(library->start().text(), HasSubstr("_default.yaml:1"));
  write("_default.yaml", everybody(", max_tries: 4"));
  write("a.yaml", document_for("a"), 1);
  write("b.yaml", document_for("a"), 2);
  start();
  EXPECT_EQ(tries("a"), 0);
  EXPECT_EQ(tries("other"), 4);
  open(true);
  EXPECT_THAT(library->start().text(), HasSubstr("claimed by document 'a'"));
  places.folder = folder.at("nowhere");
  open();
  EXPECT_FALSE(library->start().ok());
}

// Left out, its models would fall to the global document, and what it limits would be unlimited.
TEST_F(policies_of_a_router, a_named_document_whose_provider_may_not_be_used_stops_the_start_and_is_refused_later) {
  const std::string cloud = document_for("a") + "fallback_provider: {engine: openai, model: m}\n";
  bool has_key = false;
  judge = [&has_key](const policy_document &d) { return d.provider && !has_key ? fail(errc::denied, "no key: set THE_KEY") : status(); };
  write("a.yaml", cloud);
  open();
  EXPECT_THAT(library->start().text(), AllOf(HasSubstr("set THE_KEY"), HasSubstr("a.yaml")));
  write("a.yaml", document_for("a"));
  start();
  const status refused = put("b", document_for("b") + "fallback_provider: {engine: openai, model: m}\n");
  EXPECT_EQ(refused.code(), errc::invalid) << "a client's mistake, no failed If-Match";
  EXPECT_THAT(refused.text(), HasSubstr("set THE_KEY"));
  write("a.yaml", cloud);
  library->reload();
  EXPECT_FALSE(library->now().named.at("a").document->provider) << "a running router keeps what it has";
  has_key = true;
  ASSERT_TRUE(put("b", document_for("b") + "fallback_provider: {engine: openai, model: m}\n").ok());
  has_key = false;
  write("a.yaml", document_for("a"));
  open();
  EXPECT_THAT(library->start().text(), AllOf(HasSubstr("document 'b'"), HasSubstr("set THE_KEY"), HasSubstr("--policy-store=false")));
}

TEST_F(policies_of_a_router, a_reload_takes_what_is_good_counts_the_rest_and_is_nothing_when_nothing_was_edited) {
  write("_default.yaml", everybody(", max_tries: 4"));
  write("a.yaml", document_for("a", ", max_tries: 5"));
  start();
  library->reload();
  EXPECT_THAT(counted, IsEmpty());
  write("a.yaml", "[not-a-map");
  write("_default.yaml", everybody(", max_tries: 6"));
  library->reload();
  EXPECT_EQ(tries("a"), 5);
  EXPECT_EQ(tries("other"), 6);
  write("a.yaml", document_for("a", ", max_tries: 8"));
  library->reload();
  EXPECT_EQ(tries("a"), 8);
  EXPECT_THAT(counted, ElementsAre("sighup error", "sighup success"));
}

// Naive variant: whoever asked for the reload is told that it was made, whatever came of it.
TEST_F(policies_of_a_router, who_asks_for_a_reload_is_told_the_first_reason_and_counted_as_himself) {
  write("a.yaml", document_for("a", ", max_tries: 5"));
  start();
  status told = fail(errc::internal, "no answer");
  const auto ask = [&] { library->reload("api", [&](const status &s) { told = s; }); };
  ask();
  EXPECT_TRUE(told.ok()) << told.text();
  write("a.yaml", "[not-a-map");
  ask();
  EXPECT_THAT(told.text(), HasSubstr("a.yaml"));
  EXPECT_EQ(tries("a"), 5);
  EXPECT_THAT(counted, ElementsAre("api error"));
}

TEST_F(policies_of_a_router, a_strict_reload_is_taken_whole_or_not_at_all) {
  write("_default.yaml", everybody(", max_tries: 4"));
  start(true);
  write("_default.yaml", everybody(", max_tries: 6"));
  write("a.yaml", document_for("a") + "exlude_if: {}\n");
  library->reload();
  EXPECT_EQ(tries("other"), 4);
  write("a.yaml", document_for("a"));
  library->reload();
  EXPECT_EQ(tries("other"), 6);
  EXPECT_THAT(counted, ElementsAre("sighup error", "sighup success"));
}

TEST_F(policies_of_a_router, a_single_file_is_read_again_each_time_and_counts_each_time) {
  write("policy", everybody(", max_tries: 4"));
  places = {.file = folder.at("policy"), .folder = {}};
  start();
  library->reload();
  write("policy", everybody(", max_tries: 0x"));
  library->reload();
  EXPECT_EQ(tries("m"), 4);
  remove("policy");
  library->reload();
  EXPECT_EQ(tries("m"), 4);
  EXPECT_THAT(counted, ElementsAre("sighup success", "sighup error", "sighup error"));
}

TEST_F(policies_of_a_router, a_check_across_documents_and_keys_is_made_at_the_start_at_a_reload_and_for_a_write) {
  check_all = [](const policy_set &set) {
    return set.owner_of("forbidden", "") ? fail(errc::invalid, "quota too small for 'forbidden'") : status();
  };
  write("a.yaml", document_for("forbidden"));
  open();
  EXPECT_THAT(library->start().text(), HasSubstr("quota too small"));
  write("a.yaml", document_for("a"));
  start();
  write("a.yaml", document_for("forbidden"));
  write("b.yaml", document_for("b"));
  library->reload();
  EXPECT_TRUE(library->now().named.contains("a") && !library->now().named.contains("b")) << "refused as a whole";
  const status s = put("x", document_for("forbidden"));
  EXPECT_EQ(s.code(), errc::invalid);
  EXPECT_THAT(store.records, IsEmpty());
  EXPECT_THAT(counted, ElementsAre("sighup error", "api error"));
}

TEST_F(policies_of_a_router, a_write_rules_only_once_it_is_stored_and_survives_a_restart) {
  start();
  std::vector<std::string> order;
  library->put({"team/a", document_for("a", ", max_tries: 5"), "", "t"}, [&](const status &s) { order.push_back("put " + s.text()); });
  library->erase({"team/a", "", "", "t"}, [&](const status &s) { order.push_back("erase " + s.text()); });
  EXPECT_THAT(order, IsEmpty());
  EXPECT_EQ(tries("a"), 0) << "not before the storage has it";
  ASSERT_EQ(store.jobs.size(), 1u) << "changes wait for each other";
  store.jobs.front()();
  store.jobs.pop_front();
  EXPECT_EQ(tries("a"), 5);
  EXPECT_THAT(order, ElementsAre("put "));
  store.work();
  EXPECT_THAT(order, ElementsAre("put ", "erase "));
  EXPECT_THAT(store.records, IsEmpty());

  ASSERT_TRUE(put("team/a", document_for("a", ", max_tries: 5")).ok());
  ASSERT_TRUE(put("", everybody(", max_tries: 6")).ok());
  start();
  EXPECT_EQ(tries("a"), 5);
  EXPECT_EQ(tries("other"), 6);
  start(false, false);
  EXPECT_EQ(tries("a"), 0) << "not kept, not read";
}

TEST_F(policies_of_a_router, what_cannot_be_stored_changes_nothing) {
  start();
  ASSERT_TRUE(put("", everybody(", max_tries: 5")).ok());
  store.broken = true;
  const status s = put("", everybody(", max_tries: 6"));
  EXPECT_EQ(s.code(), errc::unavailable);
  EXPECT_THAT(s.text(), HasSubstr("disk full"));
  EXPECT_EQ(tries("m"), 5);
  EXPECT_FALSE(erase("").ok());
  EXPECT_EQ(tries("m"), 5);
  open();
  EXPECT_FALSE(library->start().ok()) << "rules that cannot be read are not left out in silence";
}

TEST_F(policies_of_a_router, a_refused_write_changes_nothing_and_says_why) {
  write("a.yaml", document_for("a"));
  start();
  const std::tuple<const char *, std::string, errc, const char *> cases[] = {
      {"", "routing_policy: {strategy: nonsense}", errc::invalid, "unknown strategy"},
      {"", "[not-a-map", errc::invalid, "policy:"},
      {"x", everybody(), errc::invalid, "models"},
      {"x", document_for("a"), errc::conflict, "model 'a' is claimed by document 'a' (" },
      {"x", document_for("b") + "mode: reserverd\n", errc::invalid, "unknown mode"}};
  for (const auto &[name, text, code, words] : cases) {
    const status s = put(name, text);
    EXPECT_EQ(s.code(), code) << text;
    EXPECT_THAT(s.text(), HasSubstr(words));
  }
  EXPECT_TRUE(library->now().global.document->built_in);
  EXPECT_EQ(library->now().named.size(), 1u);
  EXPECT_EQ(counted, std::vector<std::string>(5, "api error"));
  EXPECT_TRUE(put("a", document_for("a, c")).ok()) << "its own models are its own";
}

TEST_F(policies_of_a_router, a_component_that_refuses_makes_the_change_refused_in_time) {
  pool = fleet.make_pool("m");
  judge = [this](const policy_document &d) { return try_policy(d, source, fleet.columns); };
  start();
  testing::plan().create_fails = true;
  EXPECT_THAT(put("x", document_for("new")).text(), HasSubstr("the component said no")) << "although no agent serves `new` yet";
  EXPECT_THAT(store.records, IsEmpty());
}

TEST_F(policies_of_a_router, if_match_keeps_two_writers_from_overwriting_each_other) {
  start();
  const std::string first = tag_of(*library->now().global.document);
  EXPECT_TRUE(put("", everybody(", max_tries: 5"), first).ok());
  const status late = put("", everybody(", max_tries: 6"), first);
  EXPECT_EQ(late.code(), errc::denied);
  EXPECT_EQ(tries("m"), 5);
  EXPECT_TRUE(put("", everybody(", max_tries: 6"), "\"other\", " + tag_of(*library->now().global.document)).ok());
  EXPECT_EQ(put("x", document_for("x"), "*").code(), errc::denied) << "there is no x";
  EXPECT_TRUE(put("x", document_for("x")).ok());
  EXPECT_TRUE(put("x", document_for("y"), "*").ok());
}

// Deleting what a file holds lasts until the file is edited, over restarts as well.
TEST_F(policies_of_a_router, a_deletion_lasts_until_its_file_is_edited) {
  write("_default.yaml", everybody(", max_tries: 4"));
  write("a.yaml", document_for("a", ", max_tries: 5"));
  start();
  EXPECT_TRUE(erase("a").ok());
  EXPECT_TRUE(erase("a").ok()) << "as often as you like";
  EXPECT_TRUE(erase("never there").ok());
  EXPECT_EQ(tries("a"), 4);
  library->reload();
  start();
  EXPECT_EQ(tries("a"), 4);
  write("a.yaml", document_for("a", ", max_tries: 6"));
  library->reload();
  store.work();
  EXPECT_EQ(tries("a"), 6);
  EXPECT_THAT(store.records, IsEmpty());

  EXPECT_TRUE(put("", everybody(", max_tries: 7")).ok());
  EXPECT_TRUE(erase("").ok());
  EXPECT_EQ(tries("other"), 4) << "back to the file";
  EXPECT_THAT(store.records, IsEmpty());
}

TEST_F(policies_of_a_router, a_file_edited_while_the_router_was_down_wins_over_what_was_stored) {
  write("_default.yaml", everybody(", max_tries: 4"));
  write("a.yaml", document_for("a", ", max_tries: 5"));
  start();
  ASSERT_TRUE(put("", everybody(", max_tries: 7")).ok());
  ASSERT_TRUE(put("a", document_for("a", ", max_tries: 8")).ok());
  start();
  EXPECT_EQ(tries("other"), 7);
  EXPECT_EQ(tries("a"), 8);
  write("a.yaml", document_for("a", ", max_tries: 6"));
  start();
  store.work();
  EXPECT_EQ(tries("a"), 6);
  EXPECT_EQ(tries("other"), 7);
  EXPECT_EQ(store.records.size(), 1u);
}

TEST_F(policies_of_a_router, a_stored_document_that_fits_no_longer_is_left_out_but_never_the_global_one) {
  start();
  ASSERT_TRUE(put("a", document_for("a", ", exclude_if: {srtt: {gt: 1}}")).ok());
  source = testing::test_source({"success_rate"});
  start();
  EXPECT_FALSE(library->now().named.contains("a"));
  EXPECT_EQ(store.records.size(), 1u) << "it rules again when its plugin is back";
  EXPECT_TRUE(erase("a").ok());
  EXPECT_TRUE(store.records.empty()) << "what was deleted may not come back with its plugin";
  store.records[record_key("")] = encode({"", everybody(", exclude_if: {srtt: {gt: 1}}"), "", false});
  open();
  const status s = library->start();
  EXPECT_THAT(s.text(), HasSubstr("unknown field 'srtt'"));
  EXPECT_THAT(s.text(), HasSubstr("--policy-store=false"));
}

TEST(policy_record, comes_back_as_it_was_and_nothing_else_passes_for_one) {
  const policy_record r{"org/a", std::string("a: \xff\n\0b", 7), "abc", true};
  const auto again = decode(record_key(r.name), encode(r));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->name, r.name);
  EXPECT_EQ(again->text, r.text);
  EXPECT_EQ(again->file_hash, "abc");
  EXPECT_TRUE(again->deleted);
  const std::pair<const char *, const char *> bad[] = {
      {"other:a", "{\"form\":1,\"file_sha256\":\"\",\"deleted\":false}\n"}, {"policyDocument:a", ""}, {"policyDocument:a", "{}\n"},
      {"policyDocument:a", "{\"form\":2,\"file_sha256\":\"\",\"deleted\":false}\n"}, {"policyDocument:a", "{\"form\":1}\n"},
      {"policyDocument:a", "[1\n"}};
  for (const auto &[key, value] : bad) EXPECT_FALSE(decode(key, value)) << value;
}

}  // namespace
}  // namespace hive::routing
