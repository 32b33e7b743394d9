// Secrets that change while links are up, a router whose key is not the secret's, identities that are revoked.
#include "link/link_bench_test.hpp"

namespace hive::link::testing {
namespace {

const std::string secret_c = "00112233445566778899aabbccddeeff00";

class link_rotation : public ::testing::Test {
 protected:
  // The whole way of it, with streams that go on: agents get both, the router gets both, agents lose the old, the router does.
  void rotate(agent_side &a, agent_side &other) {
    auto running = b.open(a, "/silent");
    ASSERT_TRUE(b.until([&] { return a.behind.opens == 1; }));
    for (agent_side *each : {&a, &other}) each->link->set_secrets({secret_b, secret_a});
    b.hub().set_secrets({secret_b, secret_a});
    EXPECT_TRUE(b.until([&] { return proves(a, secret_b) && proves(other, secret_b); })) << "the newest is used as soon as it holds";
    b.hub().set_secrets({secret_b});
    for (agent_side *each : {&a, &other}) each->link->set_secrets({secret_b});
    // A renewal that is overtaken by the next has no WELCOME of its own.
    EXPECT_TRUE(b.until([&] {
      return b.hub().counters.renewals >= 2 && b.link_of(a)->challenges_out == 0 && b.link_of(other)->challenges_out == 0;
    }));
    b.settle();
    EXPECT_FALSE(running->over());
    EXPECT_EQ(a.behind.welcomes, 1);
    EXPECT_EQ(a.behind.losses + other.behind.losses, 0);
    EXPECT_EQ(b.hub().counters.kicked, 0u);
    auto c = b.open(a, "/echo", "hello");
    EXPECT_TRUE(b.until([&] { return c->over(); }));
    EXPECT_EQ(c->got, 5u);
  }
  bool proves(agent_side &a, const std::string &secret) {
    hub_link *l = b.link_of(a);
    return l != nullptr && l->proven_with == proof_key(secret);
  }

  fake_factory factory;
  bench b{factory};
};

// Naive variants: a renewal with another secret is kicked; a link is made anew to change its secret.
TEST_F(link_rotation, a_secret_is_changed_without_an_end_of_any_link_or_stream) {
  b.start_hubs();
  agent_side &a = b.up(1), &other = b.up(2);
  rotate(a, other);
}

TEST_F(link_rotation, with_a_key_of_the_routers_own_the_old_secret_is_gone_for_good) {
  const identity router = identity_from_seed(seed_of(77));
  b.options.keys = {router.curve_public, router.curve_secret};
  b.agent_options.router_keys = {router.curve_public};
  b.start_hubs();
  agent_side &a = b.up(1), &other = b.up(2);
  rotate(a, other);
  b.agent_options.secrets = {secret_b};
  b.up(3);
  raw_agent old(b, 4, &router.curve_public);
  old.hello(old.id.peer_id);
  ASSERT_TRUE(old.wait(kind::challenge));
  old.send({.what = kind::auth}, old.auth_meta(secret_a, "{}"), "{}");
  EXPECT_EQ(old.kicked(), "bad_secret");
}

// Naive variant: what has been proven once holds for as long as the connection.
TEST_F(link_rotation, who_has_only_a_secret_that_is_gone_is_kicked) {
  b.start_hubs();
  agent_side &a = b.up();
  b.agent_options.secrets = {secret_a};
  b.hub().set_secrets({secret_c});
  EXPECT_TRUE(b.until([&] { return !a.behind.kicks.empty(); }));
  EXPECT_EQ(a.behind.kicks.front(), "bad_secret");
  EXPECT_EQ(b.hub().counters.links_open, 0u);
  EXPECT_EQ(b.hub().counters.auth_failures, 1u) << "what an agent tries of its secrets on a live link is no failure";
}

TEST_F(link_rotation, who_does_not_answer_is_kicked_once_its_secret_is_gone) {
  b.start_hubs();
  raw_agent mute(b, 3);
  ASSERT_TRUE(mute.join());
  const auto *l = b.hub().links().begin()->second.get();
  b.hub().set_secrets({secret_b, secret_a});
  EXPECT_FALSE(l->limit.armed()) << "its own holds as well";
  b.hub().set_secrets({secret_b});
  ASSERT_TRUE(l->limit.armed());
  b.hub().on_limit(*b.hub().links().begin()->second);
  EXPECT_EQ(mute.kicked(), "bad_secret");
}

TEST_F(link_rotation, an_agent_whose_newest_secret_the_router_lacks_renews_with_the_one_before) {
  b.options.session_ttl_ns = 400 * ns_per_ms;
  b.start_hubs();
  agent_side &a = b.up();
  a.link->set_secrets({secret_c, secret_b, secret_a});
  const uint64_t before = b.hub().counters.renewals;
  EXPECT_TRUE(b.until([&] { return b.hub().counters.renewals >= before + 2; }));
  EXPECT_EQ(a.behind.losses, 0);
  EXPECT_EQ(b.hub().counters.auth_failures, 0u);
}

// Naive variant: the answer to the first question is judged by the nonce of the second, and so on for ever.
TEST_F(link_rotation, questions_that_overtake_answers_are_no_wrong_proofs) {
  b.start_hubs();
  agent_side &a = b.up();
  const uint64_t before = b.hub().counters.renewals;
  a.link->set_secrets({secret_c, secret_b, secret_a});
  b.hub().set_secrets({secret_b, secret_a});
  b.hub().set_secrets({secret_c, secret_b});
  b.hub().set_secrets({secret_c});
  EXPECT_TRUE(b.until([&] { return proves(a, secret_c) && b.hub().counters.renewals > before; }));
  EXPECT_EQ(a.behind.kicks.size(), 0u);
}

// Naive variant: what was proven before the change is welcomed after it, and never asked again.
TEST_F(link_rotation, a_link_that_is_decided_about_while_the_secrets_change_proves_again) {
  b.start_hubs();
  b.dir.hold_decisions = true;
  b.agent_options.secrets = {secret_a, secret_b};
  agent_side &a = b.start_agent();
  ASSERT_TRUE(b.until([&] { return b.dir.held_decisions.size() == 1; }));
  b.hub().set_secrets({secret_b});
  b.dir.hold_decisions = false;
  b.dir.held_decisions[0]();
  EXPECT_TRUE(b.until([&] { return proves(a, secret_b); }));
  EXPECT_EQ(a.behind.kicks.size(), 0u);
}

// Naive variant: the WELCOME of the first question is sent after the second one, and the agent takes it for a false proof.
TEST_F(link_rotation, secrets_that_change_while_a_renewal_is_decided_end_no_link_and_no_stream) {
  b.start_hubs();
  agent_side &a = b.up();
  auto running = b.open(a, "/silent");
  ASSERT_TRUE(b.until([&] { return a.behind.opens == 1; }));
  a.link->set_secrets({secret_b, secret_a});
  b.dir.hold_decisions = true;
  b.hub().set_secrets({secret_b, secret_a});
  ASSERT_TRUE(b.until([&] { return b.dir.held_decisions.size() == 1; }));
  b.hub().set_secrets({secret_c, secret_b, secret_a});
  b.dir.hold_decisions = false;
  b.dir.held_decisions[0]();
  EXPECT_TRUE(b.until([&] { return b.hub().counters.renewals > 0; }));
  b.settle();
  EXPECT_FALSE(running->over());
  EXPECT_EQ(a.behind.losses, 0);
  EXPECT_EQ(a.behind.kicks.size(), 0u);
  auto c = b.open(a, "/echo", "hello");
  EXPECT_TRUE(b.until([&] { return c->over(); }));
  EXPECT_EQ(c->got, 5u);
}

// Naive variant: a list that is read again unchanged asks nobody, and an agent that got its new secret late keeps the old proof.
TEST_F(link_rotation, an_unchanged_list_asks_every_link_that_has_not_proven_its_newest) {
  b.start_hubs(2);
  agent_side &a = b.up();
  const auto read_again = [this] {
    for (uint32_t w : {0u, 1u}) b.hub(w).set_secrets({secret_b, secret_a});
  };
  const auto both = [&](const std::string &secret) {
    for (uint32_t w : {0u, 1u})
      if (const hub_link *l = b.link_of(a, w); l == nullptr || l->proven_with != proof_key(secret) || l->challenges_out != 0) return false;
    return true;
  };
  read_again();
  ASSERT_TRUE(b.until([&] { return b.hub(0).counters.renewals == 1 && b.hub(1).counters.renewals == 1; }));
  ASSERT_TRUE(both(secret_a)) << "it has no other";
  a.link->set_secrets({secret_b, secret_a});
  read_again();
  EXPECT_TRUE(b.until([&] { return both(secret_b); }));
  read_again();
  EXPECT_TRUE(both(secret_b)) << "whoever has proven the newest is not asked";
  EXPECT_EQ(a.behind.losses, 0);
}

// With a pinned key the handshake says nothing about secrets: the KICK does, and the next one is tried at once.
TEST_F(link_rotation, a_new_agent_tries_its_secrets_in_turn_behind_a_pinned_key) {
  const identity router = identity_from_seed(seed_of(77));
  b.options.keys = {router.curve_public, router.curve_secret};
  b.options.secrets = {secret_a};
  b.start_hubs(2);
  b.agent_options.router_keys = {identity_from_seed(seed_of(78)).curve_public, router.curve_public};
  b.agent_options.secrets = {secret_c, secret_b, secret_a};
  b.agent_options.reconnect_min_ns = b.agent_options.reconnect_max_ns = 3600 * ns_per_s;  // none of it waits
  agent_side &a = b.up();
  EXPECT_EQ(a.behind.kicks, (std::vector<std::string>{"bad_secret", "bad_secret"}));
}

TEST_F(link_rotation, a_router_with_another_key_than_the_pinned_one_is_not_talked_to) {
  b.start_hubs();
  b.agent_options.router_keys = {identity_from_seed(seed_of(77)).curve_public};
  agent_side &a = b.start_agent();
  EXPECT_TRUE(b.until([&] { return a.link->slots[0]->failures >= 2; }));
  EXPECT_FALSE(a.up());
  EXPECT_EQ(b.hub().counters.in.frames, 0u);
}

// A secret that is read again may be the one that was missing.
TEST_F(link_rotation, an_agent_that_could_not_get_in_dials_at_once_with_new_secrets) {
  b.start_hubs();
  b.agent_options.secrets = {secret_b};
  b.agent_options.reconnect_min_ns = b.agent_options.reconnect_max_ns = 3600 * ns_per_s;
  agent_side &a = b.start_agent();
  ASSERT_TRUE(b.until([&] { return a.link->slots[0]->failures == 1; }));
  a.link->set_secrets({secret_a});
  EXPECT_TRUE(b.until([&] { return a.up(); }));
}

TEST_F(link_rotation, a_denied_key_gets_no_link_until_it_is_taken_back) {
  b.start_hubs();
  agent_side &a = b.up();
  const identity id = identity_from_seed(seed_of(1));
  ASSERT_TRUE(b.hub().pump.set_denied({id.curve_public}).ok());
  EXPECT_TRUE(a.up()) << "whoever is connected is ended by a kick alone";
  b.hub().kick_peer(id.peer_id, {"revoked", "the operator has revoked this identity", 0, false});
  ASSERT_TRUE(b.until([&] { return a.link->slots[0]->why.find("refused this key") != std::string::npos; }));
  EXPECT_EQ(a.behind.kicks, (std::vector<std::string>{"revoked"}));
  EXPECT_FALSE(a.up());
  ASSERT_TRUE(b.hub().pump.set_denied({}).ok());
  EXPECT_TRUE(b.until([&] { return a.up(); }));
}

TEST_F(link_rotation, secrets_are_not_kept_once_their_keys_are_derived) {
  b.start_hubs();
  agent_side &a = b.up();
  EXPECT_TRUE(b.hub().options.secrets.empty());
  EXPECT_TRUE(a.link->options.secrets.empty());
}

TEST_F(link_rotation, refusals_are_counted_by_their_reason) {
  b.start_hubs();
  raw_agent wrong(b, 3);
  wrong.hello(wrong.id.peer_id);
  ASSERT_TRUE(wrong.wait(kind::challenge));
  wrong.send({.what = kind::auth}, wrong.auth_meta(secret_b, "{}"), "{}");
  EXPECT_EQ(wrong.kicked(), "bad_secret");
  raw_agent other(b, 4);
  other.hello(identity_from_seed(seed_of(5)).peer_id);
  EXPECT_EQ(other.kicked(), "hello");
  EXPECT_EQ(b.hub().counters.rejected[rejection_of("bad_secret")], 1u);
  EXPECT_EQ(b.hub().counters.rejected[rejection_of("hello")], 1u);
  EXPECT_EQ(rejection_of("no such reason"), std::size(rejection_reasons) - 1);
}

}  // namespace
}  // namespace hive::link::testing
