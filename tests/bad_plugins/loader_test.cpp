// The loader against every kind of library it must refuse, and the rules of files and folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "plugins/instance.hpp"
#include "plugins/library.hpp"
#include "plugins/recording_services.hpp"
#include "plugins/report.hpp"

namespace hive::plugins {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

class loader : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "hive-loader-XXXXXX";
    ASSERT_NE(mkdtemp(dir_.data()), nullptr);
    settings_.dirs = {dir_};
    settings_.probe_program = CHECKER;
    settings_.probe_timeout = std::chrono::milliseconds(20000);
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string put(const std::string &from, const std::string &name) {
    const std::string to = dir_ + "/" + name + ".so";
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
    EXPECT_EQ(chmod(to.c_str(), 0644), 0);
    settings_.enable.push_back(name);
    return to;
  }
  std::string put_good(const std::string &name) { return put(std::string(GOOD_DIR) + "/" + name + ".so", name); }
  std::string put_bad(const std::string &name) { return put(std::string(BAD_DIR) + "/" + name + ".so", name); }
  const library &of(const component_registry &r, const std::string &name) {
    for (const auto &l : r.libraries()) {
      if (l->name == name) return *l;
    }
    ADD_FAILURE() << name << " is not listed";
    static const library none;
    return none;
  }

  // By the kernel's word.
  static bool is_mapped(const std::string &file) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.ends_with(" " + file)) return true;
    }
    return false;
  }

  std::string dir_;
  settings settings_;
};

struct bad_case {
  const char *name;
  const char *sentence;
};

class refusal : public loader, public testing::WithParamInterface<bad_case> {};

TEST_P(refusal, says_what_is_wrong) {
  put_bad(GetParam().name);
  component_registry r;
  const status st = r.load(settings_);
  EXPECT_FALSE(st.ok());
  EXPECT_EQ(st.path(), "plugins.enable[0]");
  EXPECT_THAT(st.message(), HasSubstr(GetParam().sentence));
  EXPECT_EQ(of(r, GetParam().name).state, library_state::refused);
  EXPECT_THAT(of(r, GetParam().name).reason, HasSubstr(GetParam().sentence));
  EXPECT_TRUE(r.ids(HIVE_KIND_STRATEGY).empty());
}

INSTANTIATE_TEST_SUITE_P(
    bad, refusal,
    testing::Values(bad_case{"missing_entry", "does not export hive_plugin_entry_v0"},
                    bad_case{"null_entry", "its entry function answered null"},
                    bad_case{"short_plugin", "its hive_plugin is too small: 16 bytes, this host needs"},
                    bad_case{"other_minor", "it was built for ABI 0.8, this host speaks 0.1; rebuild"},
                    bad_case{"other_major", "it was built for ABI 3.1, this host speaks 0.1; rebuild"},
                    bad_case{"no_components", "it claims 0 components, a library holds 1 to 256"},
                    bad_case{"too_many_components", "it claims 1000 components, a library holds 1 to 256"},
                    bad_case{"null_component", "component 0 is null"},
                    bad_case{"short_component", "component 0 is too small: hive_component has 24 bytes"},
                    bad_case{"short_table", "strategy \"bad\" has a table of calls that is too small: 16 bytes"},
                    bad_case{"missing_call", "strategy \"bad\" lacks the required call \"select\""},
                    bad_case{"missing_create", "strategy \"bad\" lacks the required call \"create\""},
                    bad_case{"bad_id", "has the id \"Bad Id!\", an id is [a-z0-9]"},
                    bad_case{"unknown_keyword", "properties.a: the keyword \"pattern\" is not in the subset"},
                    bad_case{"broken_schema", "the configuration schema of strategy \"bad\": is not JSON"},
                    bad_case{"bad_default", "properties.a.default: does not obey its own schema"},
                    bad_case{"duplicate_id", "it holds two components of kind strategy with the id \"bad\""},
                    bad_case{"custom_without_evaluate", "the field \"odd\" is custom but the gate has no \"evaluate\""},
                    bad_case{"unresolved", "undefined symbol: nobody_defines_this"},
                    bad_case{"crashing_constructor", "crashed while it was loaded in a probe process"},
                    bad_case{"exiting_constructor", "ended its probe process while it was loaded"}),
    [](const auto &one) { return one.param.name; });

TEST_F(loader, says_truthfully_what_is_mapped) {
  const std::string good = put_good("strategy_least_loaded");
  const std::string probed = put_bad("null_entry"), pinned = put_bad("bad_id"), two_faced = put_bad("two_faced"), taken = put_bad("taken_id");
  const std::string unresolved = put_bad("unresolved"), disabled = put_good("gate_srtt");
  settings_.disable = {"gate_srtt"};
  component_registry hashes;
  (void)hashes.load(settings_);
  settings_.pins = {{"bad_id", of(hashes, "bad_id").sha256}, {"unresolved", of(hashes, "unresolved").sha256}};
  component_registry r;
  (void)r.load(settings_);
  EXPECT_EQ(of(r, "two_faced").reason, "describes itself one way in the probe process and another way here");
  EXPECT_EQ(of(r, "bad_id").state, library_state::refused);
  for (const auto &[name, file, mapped] : {std::tuple{"strategy_least_loaded", good, true}, {"null_entry", probed, false}, {"bad_id", pinned, true},
                                           {"two_faced", two_faced, true}, {"taken_id", taken, true}, {"unresolved", unresolved, false},
                                           {"gate_srtt", disabled, false}}) {
    EXPECT_EQ(report(r, name).at("mapped"), mapped) << name;
    EXPECT_EQ(is_mapped(fs::canonical(file).string()), mapped) << name;
  }
  EXPECT_THAT(table(r), HasSubstr("another way here; its code stays mapped in this process\n"));
  EXPECT_THAT(table(r), HasSubstr("its entry function answered null: it does not want to load here\n"));
}

TEST_F(loader, lists_a_component_of_an_unknown_kind_and_uses_the_others) {
  put_bad("unknown_kind");
  component_registry r;
  ASSERT_TRUE(r.load(settings_).ok()) << of(r, "unknown_kind").reason;
  const auto shown = report(r, "unknown_kind");
  EXPECT_EQ(shown.at("state"), "loaded");
  EXPECT_EQ(shown.at("components").at(0).at("kind"), "unknown");
  EXPECT_EQ(shown.at("components").at(0).at("id"), "later");
  EXPECT_EQ(r.find(99, "later"), nullptr);
  EXPECT_NE(r.find(HIVE_KIND_STRATEGY, "today"), nullptr);
  EXPECT_THAT(table(r), HasSubstr("unknown/later, strategy/today"));
}

TEST_F(loader, follows_a_link_within_its_folders_only) {
  const std::string elsewhere = dir_ + "/elsewhere";
  fs::create_directory(elsewhere);
  settings_.dirs = {dir_ + "/here"};
  fs::create_directory(dir_ + "/here");
  fs::copy_file(GOOD_DIR "/strategy_least_loaded.so", elsewhere + "/out.so");
  fs::copy_file(GOOD_DIR "/strategy_power_of_two.so", dir_ + "/here/real.so.1");
  for (const std::string &file : {elsewhere + "/out.so", dir_ + "/here/real.so.1"}) ASSERT_EQ(chmod(file.c_str(), 0644), 0);
  fs::create_symlink(elsewhere + "/out.so", dir_ + "/here/out.so");
  fs::create_symlink("real.so.1", dir_ + "/here/within.so");
  settings_.enable = {"out", "within"};
  component_registry r;
  (void)r.load(settings_);
  EXPECT_EQ(of(r, "within").state, library_state::loaded) << of(r, "within").reason;
  EXPECT_THAT(of(r, "out").reason, StartsWith("is a link that leads out of the plugin folders, to " + fs::canonical(elsewhere).string() + "/out.so; copy"));
  EXPECT_FALSE(of(r, "out").mapped);
  settings_.dirs.push_back(elsewhere);
  component_registry named;
  EXPECT_TRUE(named.load(settings_).ok());
  EXPECT_EQ(of(named, "out").state, library_state::loaded) << of(named, "out").reason;

  // What is packaged is not probed, so it may not lead to what would be.
  settings_.trusted_dirs = {dir_ + "/here"};
  settings_.dirs = {elsewhere};
  component_registry packaged;
  (void)packaged.load(settings_);
  EXPECT_THAT(of(packaged, "out").reason, HasSubstr("leads out of the packaged folders"));
}

TEST_F(loader, refuses_a_library_that_hangs_when_loaded) {
  put_bad("hanging_constructor");
  settings_.probe_timeout = std::chrono::milliseconds(300);
  component_registry r;
  EXPECT_THAT(r.load(settings_).message(), HasSubstr("hung while it was loaded in a probe process (more than 300 ms)"));
}

TEST_F(loader, refuses_what_is_no_library) {
  std::ofstream(dir_ + "/text.so") << "hello";
  std::ofstream(dir_ + "/torn.so") << "\177ELF" << std::string(200, '\1');
  fs::create_directory(dir_ + "/folder.so");
  settings_.enable = {"text", "torn", "folder"};
  for (const char *name : {"/text.so", "/torn.so"}) chmod((dir_ + name).c_str(), 0644);
  component_registry r;
  EXPECT_THAT(r.load(settings_).message(), HasSubstr("is not a shared library (no ELF header)"));
  EXPECT_THAT(of(r, "torn").reason, HasSubstr("cannot be loaded"));
  EXPECT_THAT(of(r, "folder").reason, HasSubstr("is not a regular file"));
}

TEST_F(loader, refuses_a_failing_create_with_the_plugins_words) {
  put_bad("failing_create");
  component_registry r;
  ASSERT_TRUE(r.load(settings_).ok());
  recording_services services;
  const auto made = instance::make(r, *r.find(HIVE_KIND_STRATEGY, "failing"), {"here", "", "", {}}, services);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.why().code(), errc::invalid);
  EXPECT_EQ(made.why().message(), "strategy/failing cannot be created: the moon is in the wrong phase");
}

TEST_F(loader, refuses_the_second_of_two_libraries_with_one_id_or_field) {
  settings_.trusted_dirs = {GOOD_DIR};
  put_bad("taken_id");
  put_bad("taken_field");
  component_registry r;
  (void)r.load(settings_);
  EXPECT_EQ(of(r, "taken_id").reason, "its strategy \"least-loaded\" is already provided by \"strategy_least_loaded\"");
  EXPECT_EQ(of(r, "taken_field").reason,
            "its gate \"other-srtt\" serves the field \"srtt\", which the gate \"srtt\" of \"gate_srtt\" already serves; enable one of the two");
  EXPECT_EQ(r.field("srtt")->gate->id(), "srtt");
  EXPECT_EQ(r.field("srtt_upper")->field->rule, uint32_t{HIVE_RULE_CUSTOM});
}

TEST_F(loader, refuses_what_others_may_write) {
  const std::string file = put_good("strategy_least_loaded");
  for (const mode_t mode : {0666, 0664}) {
    chmod(file.c_str(), mode);
    component_registry r;
    EXPECT_THAT(r.load(settings_).message(), HasSubstr("the file may be written by others (mode 06"));
  }
  chmod(file.c_str(), 0644);
  chmod(dir_.c_str(), 0777);
  component_registry r;
  EXPECT_THAT(r.load(settings_).message(), HasSubstr("may be written by others (mode 0777); run: chmod go-w"));
}

TEST_F(loader, refuses_a_file_of_another_user) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const std::string file = put_good("strategy_least_loaded");
  ASSERT_EQ(chown(file.c_str(), 12345, 0), 0);
  component_registry r;
  EXPECT_THAT(r.load(settings_).message(), HasSubstr("the file belongs to user 12345; it must belong to root or to the user we run as"));
}

TEST_F(loader, holds_a_library_to_its_pin) {
  put_good("strategy_least_loaded");
  settings_.pins["strategy_least_loaded"] = "sha256:" + std::string(64, 'a');
  component_registry wrong;
  EXPECT_THAT(wrong.load(settings_).message(), HasSubstr("is not the pinned file: its sha256 is "));
  settings_.pins["strategy_least_loaded"] = of(wrong, "strategy_least_loaded").sha256;
  settings_.probe_program = "/nonexistent";  // a pinned file needs no probe
  component_registry right;
  EXPECT_TRUE(right.load(settings_).ok());
}

TEST_F(loader, needs_the_probe_for_a_stranger_and_probes_a_file_once) {
  put(EXAMPLE_DIR "/strategy_weighted_c.so", "strategy_weighted_c");
  settings checked = settings_;
  settings_.probe_program = "/nonexistent";
  component_registry without;
  EXPECT_THAT(without.load(settings_).message(), HasSubstr("cannot be probed, there is no program /nonexistent; install it, pin"));
  component_registry with;
  EXPECT_TRUE(with.load(checked).ok()) << of(with, "strategy_weighted_c").reason;
  component_registry again;
  EXPECT_TRUE(again.load(settings_).ok()) << "the earlier result of the same bytes holds";
}

TEST_F(loader, loads_a_plugin_written_in_c) {
  settings_.trusted_dirs = {EXAMPLE_DIR};
  component_registry r;
  ASSERT_TRUE(r.load(settings_).ok());
  recording_services services;
  const component *c = r.find(HIVE_KIND_STRATEGY, "weighted-c");
  ASSERT_NE(c, nullptr);
  const auto made = instance::make(r, *c, {"here", "", R"({"weight": 2})", {}}, services);
  ASSERT_TRUE(made.ok()) << made.why().text();
  const auto wrong = instance::make(r, *c, {"here", "", R"({"wieght": 2})", {}}, services);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.why().text(), "wieght: unknown key; did you mean \"weight\"?");
}

TEST_F(loader, takes_the_new_code_after_a_rename_over_the_same_path) {
  const std::string path = put(GOOD_DIR "/strategy_least_loaded.so", "mine");
  component_registry before;
  ASSERT_TRUE(before.load(settings_).ok());
  EXPECT_NE(before.find(HIVE_KIND_STRATEGY, "least-loaded"), nullptr);
  const std::string fresh = put(GOOD_DIR "/strategy_power_of_two.so", "fresh");
  fs::rename(fresh, path);
  settings_.enable = {"mine"};
  component_registry after;
  ASSERT_TRUE(after.load(settings_).ok());
  EXPECT_NE(after.find(HIVE_KIND_STRATEGY, "power-of-two"), nullptr);
  EXPECT_EQ(after.find(HIVE_KIND_STRATEGY, "least-loaded"), nullptr);
}

struct lingering_case {
  const char *name;
  bool remembers;
  const char *said;
};

class left_behind : public loader, public testing::WithParamInterface<lingering_case> {
 protected:
  void live_once(const std::string &json) {
    component_registry r;
    if (const status st = r.load(settings_); !st) give_up(st.text());
    recording_services services;
    const auto made = instance::make(r, *r.find(HIVE_KIND_STRATEGY, "lingering"), {"here", "", json, {}}, services);
    if (!made.ok()) give_up(made.why().text());
  }
  [[noreturn]] static void give_up(const std::string &why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::_Exit(1);
  }
  // Once on a thread that ends, once, with a new version in the same place, on the one that ends the process.
  [[noreturn]] void live_twice(const std::string &file) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) give_up("no socket");
    const std::string json = R"({"fd":)" + std::to_string(ends[1]) + R"(,"remembers":)" + (GetParam().remembers ? "true}" : "false}");
    const auto live = [&] {
      live_once(json);
      std::fputs("gone\n", stderr);
    };
    const auto call_its_thread = [&] {
      char c = 'x';
      const bool heard = write(ends[0], &c, 1) == 1 && read(ends[0], &c, 1) == 1;
      std::fputs(heard ? "echo\n" : "silence\n", stderr);
    };
    std::thread(live).join();
    std::fputs(is_mapped(fs::canonical(file).string()) ? "mapped\n" : "unmapped\n", stderr);
    call_its_thread();
    fs::copy_file(file, file + ".new");
    fs::rename(file + ".new", file);
    live();
    call_its_thread();
    fs::remove_all(dir_);
    std::exit(0);
  }
};

// Naive variant: a registry unmaps what it has loaded, and a thread returns into nothing. A unique symbol, which two versions share, and
// a thread_local would hide that, hence both with and without.
TEST_P(left_behind, code_stays_for_who_is_still_in_it_and_the_process_ends_well) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string file = put_bad(GetParam().name);
  EXPECT_EXIT(live_twice(file), testing::ExitedWithCode(0), GetParam().said);
}

const std::vector<lingering_case> lingering_cases = {
#ifdef HAS_PLAIN_BUILD
    {"lingering_plain", false, "life 1\ngone\nmapped\necho\nlife 2\ngone\necho\n"},
    {"lingering_plain", true, "life 1\ngone\nfarewell\nmapped\necho\nlife 2\ngone\necho\nfarewell\n"},
#endif
    {"lingering", false, "life 1\ngone\nmapped\necho\nlife 1\ngone\necho\n"},
    {"lingering", true, "life 1\ngone\nfarewell\nmapped\necho\nlife 1\ngone\necho\nfarewell\n"}};

INSTANTIATE_TEST_SUITE_P(third_parties, left_behind, testing::ValuesIn(lingering_cases),
                         [](const auto &one) { return std::string(one.param.name) + (one.param.remembers ? "_remembers" : ""); });

TEST_F(loader, names_the_plugin_that_would_provide_what_is_missing) {
  settings_.trusted_dirs = {GOOD_DIR};
  settings_.disable = {"strategy_power_of_two", "gate_hardware"};
  component_registry r;
  ASSERT_TRUE(r.load(settings_).ok());
  EXPECT_THAT(r.missing(HIVE_KIND_STRATEGY, "power-of-two").message(),
              HasSubstr("the plugin \"strategy_power_of_two\" would provide it but is disabled (it stands in plugins.disable)"));
  EXPECT_THAT(r.missing_field("cpu_usage_percent").message(), HasSubstr("the plugin \"gate_hardware\" would provide it"));
  EXPECT_EQ(r.missing_field("srt").message().find("no gate field \"srt\"; did you mean \"srtt\"?"), 0u);
  EXPECT_THAT(r.missing(HIVE_KIND_STRATEGY, "lest-loaded").message(), HasSubstr("did you mean \"least-loaded\"?"));
}

TEST_F(loader, refuses_names_and_configuration_that_fit_nothing) {
  settings_.trusted_dirs = {GOOD_DIR};
  settings_.enable = {"strategy_least_laoded"};
  component_registry name;
  EXPECT_EQ(name.load(settings_).text(),
            "plugins.enable[0]: there is no strategy_least_laoded.so in the plugin folders; did you mean \"strategy_least_loaded\"?");
  settings_.enable = {};
  settings_.configuration = {{"strategy/power-of-two", R"({"seed": -1})"}};
  component_registry range;
  EXPECT_EQ(range.load(settings_).text(), "plugins.configuration.strategy/power-of-two.seed: must be at least 0, is -1");
  settings_.configuration.clear();
  settings_.dirs = {"/nonexistent/plugins"};
  component_registry folder;
  EXPECT_EQ(folder.load(settings_).text(), "plugins.dirs[0]: there is no folder /nonexistent/plugins");
}

TEST_F(loader, judges_a_block_with_what_the_program_hands_to_the_component) {
  settings_.trusted_dirs = {GOOD_DIR};
  settings_.configuration = {{"storage/lmdb", R"({"map_size_mb": 8})"}};
  settings_.places = {{"storage/lmdb", "router.yaml:7: plugins.config.storage.lmdb"}};
  component_registry alone;
  EXPECT_THAT(alone.load(settings_).text(), StartsWith("router.yaml:7: plugins.config.storage.lmdb.path: "));

  settings_.program_values = {{"storage/lmdb", R"({"path": "./db", "map_size_mb": 1})"}};
  component_registry together;
  EXPECT_TRUE(together.load(settings_).ok()) << together.problems().front().text();
  const component *lmdb = together.find(HIVE_KIND_STORAGE, "lmdb");
  ASSERT_NE(lmdb, nullptr);
  EXPECT_EQ(together.configuration(*lmdb), R"({"path":"./db","map_size_mb":8})");
}

TEST_F(loader, lists_every_problem_of_the_operators_settings) {
  settings_.trusted_dirs = {GOOD_DIR};
  settings_.dirs = {"/nonexistent/plugins"};
  settings_.enable = {"nobody"};
  settings_.configuration = {{"strategy/power-of-two", R"({"seed": -1})"}, {"storage/redis", "{}"}};
  component_registry r;
  const status first = r.load(settings_);
  ASSERT_EQ(r.problems().size(), 4u);
  EXPECT_EQ(first.text(), r.problems()[0].text());
  EXPECT_THAT(r.problems()[2].text(), StartsWith("plugins.configuration.storage/redis: no storage \"redis\""));
}

TEST_F(loader, reports_every_library) {
  settings_.trusted_dirs = {GOOD_DIR};
  put_bad("null_entry");
  component_registry r;
  (void)r.load(settings_);
  recording_services services;
  const auto made = instance::make(r, *r.find(HIVE_KIND_STRATEGY, "least-loaded"), {"edge/llama", "pool llama", "", {}}, services);
  ASSERT_TRUE(made.ok());
  const auto all = report(r).at("plugins").as_array();
  EXPECT_GE(all.size(), 5u);
  const auto one = report(r, "strategy_least_loaded");
  EXPECT_EQ(one.at("state"), "loaded");
  EXPECT_EQ(one.at("abi"), "0.1");
  EXPECT_EQ(one.at("sha256").as_string().size(), 64u);
  EXPECT_EQ(one.at("instances").at(0).at("name"), "edge/llama");
  EXPECT_EQ(report(r, "null_entry").at("state"), "refused");
  EXPECT_TRUE(report(r, "nobody").is_null());
  EXPECT_THAT(table(r), HasSubstr("its entry function answered null"));
  EXPECT_THAT(table(r), HasSubstr("strategy/least-loaded"));
}

}  // namespace
}  // namespace hive::plugins
