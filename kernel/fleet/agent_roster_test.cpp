#include "fleet/agent_roster.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "base/test_folder.hpp"
#include "fleet/map_store.hpp"
#include "fleet/registry_bed.hpp"

namespace hive::fleet {
namespace {

std::string peer_of(uint8_t n) {
  link::key32 seed{};
  seed[0] = n;
  return link::identity_from_seed(seed).peer_id;
}

class roster : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(thread.open().ok()); }
  std::string file(const std::string &name, const std::string &text) {
    const std::string path = folder.at(name);
    std::ofstream(path) << text;
    return path;
  }
  agent_roster make(agent_roster::files places = {}) { return agent_roster(thread, control, clock, std::move(places)); }
  // What `done` was given, once the storage and the control loop have had their turn.
  status wait(const std::optional<status> &got) {
    for (int i = 0; i < 5000 && !got; ++i) control.io().run_one_for(std::chrono::milliseconds(2));
    return got.value_or(fail(errc::timeout, "no answer"));
  }
  status revoke(agent_roster &r, const std::string &peer, const std::string &reason = "") {
    std::optional<status> got;
    if (const status taken = r.revoke(peer, reason, "10.0.0.9", [&](status s) { got = s; }); !taken) return taken;
    return wait(got);
  }
  status restore(agent_roster &r, const std::string &peer) {
    std::optional<status> got;
    if (const status taken = r.restore(peer, [&](status s) { got = s; }); !taken) return taken;
    return wait(got);
  }
  static std::string code(const agent_roster &r, const std::string &peer, const std::vector<std::string> &models = {}) {
    const auto no = r.judge(peer, models);
    return no ? no->code : "";
  }

  test_folder folder;
  loop control;
  system_clock_source clock;
  map_store store;
  storage_thread thread{{&map_store::table, &store}};
  const std::string a = peer_of(1), b = peer_of(2), c = peer_of(3);
};

// Naive variants: only the memory knows; the record is of a peer id that nobody can have.
TEST_F(roster, who_is_revoked_stays_so_over_a_restart_until_it_is_called_back) {
  agent_roster first = make();
  ASSERT_TRUE(first.start().ok());
  int told = 0;
  first.on_change([&] { ++told; });
  EXPECT_EQ(code(first, a), "");
  ASSERT_TRUE(revoke(first, a, "its host was broken into").ok());
  EXPECT_EQ(code(first, a), "revoked");
  EXPECT_EQ(code(first, b), "");
  EXPECT_EQ(told, 1);

  agent_roster second = make();
  ASSERT_TRUE(second.start().ok());
  EXPECT_EQ(code(second, a), "revoked");
  const auto all = second.revoked();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].reason, "its host was broken into");
  EXPECT_EQ(all[0].by, "10.0.0.9");
  EXPECT_GT(all[0].since_unix_ms, 0u);
  EXPECT_EQ(second.denied_keys(), std::vector<link::key32>{*link::curve_key_of(a)});
  ASSERT_TRUE(restore(second, a).ok());
  EXPECT_EQ(code(second, a), "");
  EXPECT_TRUE(second.denied_keys().empty());
  EXPECT_TRUE(store.records.empty());
  EXPECT_EQ(restore(second, a).code(), errc::not_found);
}

TEST_F(roster, a_revocation_that_cannot_be_stored_holds_all_the_same_and_says_so) {
  agent_roster r = make();
  ASSERT_TRUE(r.start().ok());
  store.fail_reads = store.fail_writes = true;
  EXPECT_FALSE(revoke(r, a).ok());
  EXPECT_EQ(code(r, a), "revoked");
}

// Naive variant: a store that cannot be read is an empty one.
TEST_F(roster, nobody_is_let_in_by_a_store_that_cannot_be_read) {
  store.fail_reads = store.fail_writes = true;
  EXPECT_EQ(make().start().code(), errc::unavailable);
  store.fail_reads = store.fail_writes = false;
  store.records["agentRevoked:" + a] = {"{\"form\":2}", 0};
  EXPECT_EQ(make().start().code(), errc::corrupt);
}

TEST_F(roster, texts_that_are_no_peer_ids_are_refused) {
  agent_roster r = make();
  ASSERT_TRUE(r.start().ok());
  for (const std::string &bad : {std::string(), std::string("A"), a + "x", a.substr(1), "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG" + std::string()})
    EXPECT_EQ(revoke(r, bad).code(), errc::invalid) << bad;
  EXPECT_TRUE(r.revoked().empty());
}

TEST_F(roster, a_file_revokes_too_and_only_its_owner_takes_that_back) {
  const std::string path = file("revoked", "# stolen\r\n" + a + "\r\n\n  " + b + "  \n");
  agent_roster r = make({path, {}});
  ASSERT_TRUE(r.start().ok());
  EXPECT_EQ(code(r, a) + code(r, b) + code(r, c), "revokedrevoked");
  EXPECT_EQ(restore(r, a).code(), errc::conflict);
  ASSERT_TRUE(revoke(r, a, "twice").ok());
  EXPECT_EQ(r.revoked().size(), 2u);
  EXPECT_EQ(r.denied_keys().size(), 2u);
  file("revoked", b + "\n");
  ASSERT_TRUE(r.reload().ok());
  EXPECT_EQ(code(r, a), "revoked") << "by the operator's word";
  ASSERT_TRUE(restore(r, a).ok());
  EXPECT_EQ(code(r, a), "");
}

TEST_F(roster, a_bad_file_stops_the_start_and_changes_nothing_later) {
  const struct {
    std::string text, says;
  } cases[] = {{"nobody\n", "list:1: the line begins with no peer id"},
               {a + "\n\n" + a + "\n", "list:3: this peer id stands in a line above"},
               {a + " since yesterday\n", "list:1: something stands behind the peer id"}};
  const std::string path = file("list", b + "\n");
  agent_roster r = make({path, {}});
  ASSERT_TRUE(r.start().ok());
  for (const auto &[text, says] : cases) {
    file("list", text);
    EXPECT_NE(make({path, {}}).start().text().find(says), std::string::npos) << make({path, {}}).start().text();
    EXPECT_FALSE(agent_roster::check({path, {}}).ok());
    EXPECT_FALSE(r.reload().ok());
    EXPECT_EQ(code(r, a) + code(r, b), "revoked") << text;
  }
  EXPECT_FALSE(make({folder.at("none"), {}}).start().ok());
}

// A rogue agent with the secret: it claims a model that is not its own and would get its prompts.
TEST_F(roster, with_a_list_only_those_in_it_register_and_only_with_their_models) {
  const std::string path = file("agents", a + "\n" + b + " org/model-7b\tother:q4 \n");
  agent_roster r = make({{}, path});
  ASSERT_TRUE(r.start().ok());
  EXPECT_EQ(code(r, a, {"anything"}), "");
  EXPECT_EQ(code(r, b, {"org/model-7b", "other:q4"}), "");
  EXPECT_EQ(code(r, b, {"org/model-7b", "org/model-70b"}), "unlisted");
  EXPECT_EQ(code(r, c), "unlisted");
  file("agents", a + "\n" + c + "\n");
  ASSERT_TRUE(r.reload().ok());
  EXPECT_EQ(code(r, b) + code(r, c), "unlisted");
  file("agents", "");
  ASSERT_TRUE(r.reload().ok());
  EXPECT_EQ(code(r, a), "unlisted") << "an empty list lets nobody in";
  ASSERT_TRUE(revoke(r, a).ok());
  EXPECT_EQ(code(r, a), "revoked");
}

TEST_F(roster, agents_inside_the_process_are_not_its_matter) {
  const std::string path = file("agents", b + "\n");
  agent_roster r = make({{}, path});
  ASSERT_TRUE(r.start().ok());
  r.exempt({a});
  EXPECT_EQ(code(r, a), "");
  EXPECT_EQ(revoke(r, a).code(), errc::conflict);
  EXPECT_TRUE(r.revoked().empty());
}

TEST(revocation_record, comes_back_as_it_was_and_other_shapes_are_nothing) {
  const revocation r{peer_of(1), "because of \"that\"\n", "10.0.0.1 (request x)", 1'700'000'000'123, false};
  const std::string key = "agentRevoked:" + r.peer_id;
  const auto back = decode_revocation(key, encode(r));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->peer_id + back->reason + back->by, r.peer_id + r.reason + r.by);
  EXPECT_EQ(back->since_unix_ms, r.since_unix_ms);
  for (const char *value : {"", "{}", "[]", R"({"form":2,"reason":"","by":"","since":1})", R"({"form":1,"reason":1,"by":"","since":1})"})
    EXPECT_FALSE(decode_revocation(key, value)) << value;
  EXPECT_FALSE(decode_revocation("agentRevoked:nobody", encode(r)));
  EXPECT_FALSE(decode_revocation("other:" + r.peer_id, encode(r)));
}

// Naive variants: the links go and the agent stays routable for a moment; a newcomer that waits takes its place.
TEST_F(registry_of_two_workers, who_is_put_out_loses_all_links_at_once_and_is_no_agent_any_more) {
  EXPECT_FALSE(reg.disconnect("A", {"revoked", "words", 60'000, true}));
  connect(1);
  ASSERT_TRUE(a());
  const auto who = a();
  const auto newcomer = std::make_shared<link::auth_decision>(authenticate(20, 2));
  EXPECT_EQ(newcomer->what, link::auth_decision::kind::wait_for_probe);
  EXPECT_TRUE(reg.disconnect("A", {"revoked", "words", 60'000, true}));
  EXPECT_EQ(last->kick_code, "revoked");
  EXPECT_FALSE(last->final);
  EXPECT_EQ(last->retry_after_ms, 60'000u);
  EXPECT_FALSE(a());
  EXPECT_NE(who->standing() & standing_removed, 0u);
  ASSERT_EQ(links.kicked.size(), 2u);
  for (const auto &[peer, code] : links.kicked) EXPECT_EQ(code, "revoked");
  EXPECT_EQ(links.words, "words");
}

TEST_F(registry_of_two_workers, who_is_kicked_keeps_its_record_for_when_it_is_back) {
  connect(1);
  const auto who = a();
  EXPECT_TRUE(reg.disconnect("A", {"kicked", "words", 1000, false}));
  ASSERT_EQ(links.kicked.size(), 2u);
  EXPECT_EQ(a(), who);
  for (const uint64_t peer : {10u, 11u}) reg.link_lost({peer == 10u ? 0u : 1u, peer}, "kicked");
  EXPECT_NE(who->standing() & standing_unlinked, 0u);
  EXPECT_FALSE(reg.disconnect("A", {"kicked", "words", 1000, false})) << "it has no link";
  connect(1);
  EXPECT_EQ(a(), who);
  EXPECT_EQ(who->standing() & standing_unlinked, 0u);
}

}  // namespace
}  // namespace hive::fleet
