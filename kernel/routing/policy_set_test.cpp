// Which documents follow from which files: order, owners, what stays and what a bad file costs.
#include "routing/policy_set.hpp"

#include <algorithm>
#include <random>

#include "base/digest.hpp"
#include "routing/policy_bed.hpp"

namespace hive::routing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::document_for;
using testing::everybody;

struct policy_folder : testing::policy_bed {
  policy_change merge(bool strict = false) {
    auto files = read_policy_files({.file = file, .folder = folder.path().string()});
    EXPECT_TRUE(files) << files.why().text();
    policy_change change = merge_policies(now, *files, {source, judge, strict});
    now = change.next;
    return change;
  }
  std::string file;
  policy_judge judge;
  policy_set now;
};

TEST_F(policy_folder, names_documents_by_their_files_and_takes_only_policies) {
  write("_default.yaml", everybody(", max_tries: 7"));
  write("llama3-large.yml", document_for("a, b"));
  write("notes.txt", "not a policy");
  write(".yaml", document_for("c"));
  std::filesystem::create_directory(folder.at("sub.yaml"));
  const policy_change c = merge();
  EXPECT_TRUE(c.changed && c.global.ok() && c.problems.empty());
  EXPECT_EQ(now.global.document->steps[0].max_tries, 7);
  EXPECT_EQ(now.global.from, folder.at("_default.yaml"));
  ASSERT_EQ(now.named.size(), 1u);
  EXPECT_EQ(owner(now, "b"), "llama3-large");
  EXPECT_EQ(owner(now, "c"), "");
}

// Breaks when the directory's own order or the name decides.
TEST_F(policy_folder, the_oldest_file_owns_a_model_and_the_other_is_refused_whole_naming_both) {
  write("a.yaml", document_for("m, only-a"), 20);
  write("b.yaml", document_for("m"), 10);
  write("c.yaml", document_for("m"), 10);
  const policy_change c = merge();
  EXPECT_EQ(owner(now, "m"), "b");
  EXPECT_EQ(owner(now, "only-a"), "") << "a document is refused whole";
  ASSERT_EQ(c.problems.size(), 2u);
  for (const status &s : c.problems) {
    EXPECT_EQ(s.code(), errc::conflict);
    EXPECT_THAT(s.text(), HasSubstr("model 'm' is claimed by document 'b' (" + folder.at("b.yaml") + ")"));
  }
  EXPECT_THAT(c.problems[0].text(), HasSubstr(folder.at("c.yaml")));
  EXPECT_THAT(c.problems[1].text(), HasSubstr("document 'a' is refused whole"));
}

TEST_F(policy_folder, a_bad_file_costs_itself_and_a_file_that_stays_keeps_its_models) {
  write("a.yaml", document_for("a"));
  write("b.yaml", document_for("b"));
  merge();
  write("a.yaml", "[not-a-map", 1);
  write("c.yaml", document_for("a"), 2);      // wants what a.yaml had before it broke
  write("d.yaml", everybody(), 3);            // no models
  write("e.yaml", document_for("e"), 4);
  policy_change c = merge();
  EXPECT_EQ(owner(now, "a"), "a");
  EXPECT_EQ(owner(now, "b"), "b");
  EXPECT_EQ(owner(now, "e"), "e");
  ASSERT_EQ(c.problems.size(), 3u);
  EXPECT_THAT(c.problems[0].text(), HasSubstr("a.yaml:"));
  EXPECT_THAT(c.problems[1].text(), HasSubstr("d.yaml:1"));
  EXPECT_THAT(c.problems[2].text(), HasSubstr("'a' is claimed by document 'a'"));
  EXPECT_TRUE(merge().changed) << "what could not be taken is told again, not forgotten";
}

// c comes too late and keeps its old models, which b has just been given: judged once, the two would both own `c-old`.
TEST_F(policy_folder, an_edited_file_that_is_refused_takes_its_old_models_back) {
  write("a.yaml", document_for("a"), 1);
  write("c.yaml", document_for("c-old"), 2);
  merge();
  write("c.yaml", document_for("a"), 4);
  write("b.yaml", document_for("c-old"), 3);
  const policy_change c = merge();
  EXPECT_EQ(owner(now, "a"), "a");
  EXPECT_EQ(owner(now, "c-old"), "c");
  EXPECT_FALSE(now.named.contains("b"));
  EXPECT_EQ(c.problems.size(), 2u);
}

TEST_F(policy_folder, models_change_hands_between_two_files_edited_together) {
  write("a.yaml", document_for("x"), 1);
  write("b.yaml", document_for("y"), 1);
  merge();
  write("a.yaml", document_for("y"), 2);
  write("b.yaml", document_for("x"), 2);
  EXPECT_TRUE(merge().problems.empty());
  EXPECT_EQ(owner(now, "y"), "a");
  EXPECT_EQ(owner(now, "x"), "b");
}

TEST_F(policy_folder, nothing_changes_when_nothing_was_edited_and_a_file_that_is_gone_takes_its_document_along) {
  write("_default.yaml", everybody(", max_tries: 7"));
  write("a.yaml", document_for("a"));
  EXPECT_TRUE(merge().changed);
  write("a.yaml", document_for("a"), 99);  // touched
  const auto before = now.named.at("a").document;
  EXPECT_FALSE(merge().changed);
  EXPECT_EQ(now.named.at("a").document, before);
  remove("a.yaml");
  remove("_default.yaml");
  EXPECT_TRUE(merge().changed);
  EXPECT_TRUE(now.named.empty());
  EXPECT_TRUE(now.global.document->built_in);
}

TEST_F(policy_folder, the_folders_default_wins_over_the_file_which_is_there_without_it) {
  write("file", everybody(", max_tries: 1"));
  file = folder.at("file");
  write("_default.yml", everybody(", max_tries: 2"));
  const policy_change c = merge();
  EXPECT_EQ(now.global.document->steps[0].max_tries, 2);
  EXPECT_THAT(c.warnings, ElementsAre(HasSubstr("is not used")));
  remove("_default.yml");
  merge();
  EXPECT_EQ(now.global.document->steps[0].max_tries, 1);
}

TEST_F(policy_folder, a_bad_default_leaves_the_global_policy_and_models_in_it_only_warn) {
  write("_default.yaml", everybody(", max_tries: 7"));
  merge();
  write("_default.yaml", "routing_policy: {}");
  EXPECT_THAT(merge().global.text(), HasSubstr("strategy is required"));
  EXPECT_EQ(now.global.document->steps[0].max_tries, 7);
  write("_default.yaml", document_for("m"));
  const policy_change c = merge();
  EXPECT_THAT(c.warnings, ElementsAre(HasSubstr("models has no effect")));
  EXPECT_EQ(now.owner_of("m", ""), nullptr);
}

TEST_F(policy_folder, two_files_of_one_name_are_one_too_many) {
  write("a.yaml", document_for("x"));
  write("a.yml", document_for("y"));
  const policy_change c = merge();
  ASSERT_EQ(c.problems.size(), 1u);
  EXPECT_THAT(c.problems[0].text(), HasSubstr("document 'a' is in " + folder.at("a.yaml") + " already"));
  EXPECT_EQ(owner(now, "x"), "a");
  write("_default.yaml", everybody());
  write("_default.yml", everybody());
  const auto files = read_policy_files({.file = {}, .folder = folder.path().string()});
  ASSERT_FALSE(files);
  EXPECT_THAT(files.why().text(), HasSubstr("two files"));
  EXPECT_FALSE(read_policy_files({.file = {}, .folder = folder.at("nowhere")}));
}

TEST_F(policy_folder, whoever_judges_is_asked_of_every_document_and_strict_refuses_unknown_keys) {
  write("_default.yaml", everybody());
  write("a.yaml", document_for("a"));
  write("b.yaml", document_for("b") + "exlude_if: {}\n");
  judge = [](const policy_document &d) { return d.name == "a" ? fail(errc::unsupported, "not here") : status(); };
  policy_change c = merge();
  ASSERT_EQ(c.problems.size(), 1u);
  EXPECT_EQ(c.problems[0].text(), folder.at("a.yaml") + ": not here");
  EXPECT_THAT(c.warnings, ElementsAre(HasSubstr("b.yaml:3")));
  now = {};
  c = merge(true);
  EXPECT_EQ(c.problems.size(), 2u);
  EXPECT_FALSE(now.named.contains("b"));
}

// What the admin API wrote stands until its file is edited; without a file, for good.
TEST_F(policy_folder, the_later_of_file_and_admin_api_rules) {
  write("_default.yaml", everybody());
  write("a.yaml", document_for("a"));
  write("b.yaml", document_for("b"));
  merge();
  const auto written = [&](const std::string &name, const std::string &text) {
    std::vector<std::string> ignored;
    auto d = read_document(text, "test", name, {source, {}, false}, ignored);
    ASSERT_TRUE(d) << d.why().text();
    held_policy &held = name.empty() ? now.global : now.named[name];
    held = {*d, from_admin_api, held.file_hash, true, text};
  };
  written("", everybody(", max_tries: 9"));
  written("a", document_for("a2"));
  written("api/only", document_for("c"));
  now.named["b"] = {nullptr, from_admin_api, now.named["b"].file_hash, true, {}};  // deleted
  EXPECT_FALSE(merge().changed);
  EXPECT_EQ(owner(now, "b"), "");

  write("_default.yaml", everybody(", max_tries: 3"));
  write("a.yaml", document_for("a3"));
  remove("b.yaml");
  const policy_change c = merge();
  EXPECT_EQ(now.global.document->steps[0].max_tries, 3);
  EXPECT_EQ(owner(now, "a3"), "a");
  EXPECT_EQ(owner(now, "c"), "api/only");
  EXPECT_FALSE(now.named.contains("b"));
  EXPECT_THAT(c.superseded, ::testing::UnorderedElementsAre("", "a", "b"));
}

// Files come, go, break and claim each other's models, in any order. Against judging candidates once, and against forgetting what a
// refused one held before.
TEST_F(policy_folder, whatever_is_edited_a_model_has_one_owner_and_what_was_not_edited_stays) {
  std::mt19937 random(20261130);
  const auto below = [&](unsigned n) { return random() % n; };
  std::map<std::string, policy_file> disk;
  for (int round = 0; round < 4000; ++round) {
    for (unsigned edits = 1 + below(3); edits > 0; --edits) {
      const std::string name(1, static_cast<char>('p' + below(5)));
      if (below(4) == 0) {
        disk.erase(name);
        continue;
      }
      std::string models;
      for (char m = 'a'; m < 'f'; ++m)
        if (below(3) == 0) models += std::string(models.empty() ? "" : ", ") + m;
      const std::string text = below(6) == 0 ? "[" : document_for(models);
      disk[name] = {name, "/" + name, text, sha256_hex(text), static_cast<int64_t>(below(3)), {}};
    }
    policy_files found;
    for (const auto &[name, each] : disk) found.named.push_back(each);
    std::stable_sort(found.named.begin(), found.named.end(), [](const auto &a, const auto &b) { return a.modified_ns < b.modified_ns; });
    const policy_change c = merge_policies(now, found, {source, {}, false});

    std::map<std::string, std::string> owners;
    for (const auto &[name, held] : c.next.named) {
      for (const std::string &model : held.document->models) {
        const auto [at, fresh] = owners.emplace(model, name);
        ASSERT_TRUE(fresh) << round << ": " << model << " is owned by " << at->second << " and " << name;
      }
      const auto before = now.named.find(name);
      const bool kept = before != now.named.end() && before->second.document == held.document;
      ASSERT_TRUE(kept || held.file_hash == disk.at(name).hash) << round << ": " << name << " is of no file";
    }
    for (const auto &[name, held] : now.named) {
      if (!disk.contains(name) || disk.at(name).hash != held.file_hash) continue;
      ASSERT_EQ(c.next.named.at(name).document, held.document) << round;
    }
    for (const policy_file &each : found.named) {
      const auto held = c.next.named.find(each.name);
      const bool taken = held != c.next.named.end() && held->second.file_hash == each.hash;
      const bool told = std::any_of(c.problems.begin(), c.problems.end(), [&](const status &s) { return s.text().starts_with(each.path); });
      ASSERT_NE(taken, told) << round << ": " << each.name;
    }
    now = c.next;
  }
}

}  // namespace
}  // namespace hive::routing
