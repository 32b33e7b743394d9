#include <barrier>
#include <optional>
#include <thread>

#include "fleet/lease.hpp"
#include "fleet/metadata.hpp"
#include "fleet/registry_bed.hpp"

namespace hive::fleet {
namespace {

using kind = link::auth_decision::kind;

TEST_F(registry_of_two_workers, an_agent_is_routable_with_all_its_links_and_not_after_losing_one) {
  EXPECT_EQ(authenticate(1, 7).what, kind::welcome);
  EXPECT_EQ(a()->standing(), standing_unlinked);
  EXPECT_EQ(authenticate(2, 7, 1).what, kind::welcome);
  EXPECT_TRUE(a()->routable());
  reg.link_lost({1, 2}, "cut");
  EXPECT_EQ(describe_standing(a()->standing()), "unlinked");
  EXPECT_EQ(reg.find_pool("m")->free_slots(), 0u);
  EXPECT_EQ(authenticate(3, 7, 1).what, kind::welcome);
  EXPECT_EQ(reg.find_pool("m")->free_slots(), 2u);
}

TEST_F(registry_of_two_workers, a_pool_is_dropped_only_when_nobody_serves_it_and_who_returns_gets_a_new_one) {
  connect(1);
  EXPECT_EQ(reg.drop_pool("nothing"), nullptr);
  EXPECT_EQ(reg.drop_pool("m"), nullptr) << "it has a member";
  reg.link_lost({0, 10}, "cut");
  reg.link_lost({1, 11}, "cut");
  EXPECT_EQ(reg.drop_pool("m"), nullptr) << "its agent may come back";
  reg.goodbye("A");
  const auto kept = reg.find_pool("m");
  EXPECT_EQ(reg.drop_pool("m"), kept);
  EXPECT_EQ(reg.find_pool("m"), nullptr);
  connect(2);
  ASSERT_NE(reg.find_pool("m"), nullptr);
  EXPECT_NE(reg.find_pool("m"), kept) << "whoever holds the old one is not mixed up with the new";
  EXPECT_EQ(reg.find_pool("m")->free_slots(), 2u);
}

TEST_F(registry_of_two_workers, an_engine_that_is_down_says_why_until_it_is_up) {
  connect(1);
  reg.heartbeat("A", false, "the health page answered 500");
  EXPECT_EQ(a()->engine_reason(), "the health page answered 500");
  reg.heartbeat("A", true, "");
  EXPECT_EQ(a()->engine_reason(), "");
  reg.heartbeat("A", false, "no answer");
  reg.link_lost({0, 10}, "cut");
  reg.link_lost({1, 11}, "cut");
  connect(2);
  EXPECT_EQ(a()->engine_reason(), "") << "another process";
}

// PONGs of one agent come on the loops of all workers.
TEST_F(registry_of_two_workers, capacity_and_the_slots_of_others_agree_whoever_reports_last) {
  ASSERT_EQ(authenticate(10, 1, 0, metadata("\"m\"", 100)).what, kind::welcome);
  ASSERT_EQ(authenticate(11, 1, 1).what, kind::welcome);
  const auto who = a();
  int wrong = 0;
  std::barrier both(2, [&]() noexcept { wrong += who->slots.load().second != 100 - who->foreign.load(); });
  const auto report = [&](uint32_t worker) {
    for (uint32_t i = 0; i < 3000; ++i) {
      reg.pong("A", {.in_flight_total = (i * 7 + worker * 13) % 50, .in_flight_yours = 0, .capacity = 100}, {worker, 10 + worker});
      both.arrive_and_wait();
    }
  };
  std::thread other(report, 1);
  report(0);
  other.join();
  EXPECT_EQ(wrong, 0);
}

TEST(registry, models_beyond_the_bound_are_not_served_and_the_log_is_told) {
  manual_clock clock;
  hubs links;
  feed seen;
  registry reg(registry_settings{.models = 2}, clock, links, nullptr, &seen, nullptr);
  link::auth_request r;
  r.peer_id = "A";
  r.boot_id = 1;
  r.metadata = metadata("\"m\",\"n\",\"o\",\"p\"");
  reg.authenticate(r, [](const link::auth_decision &d) { EXPECT_EQ(d.what, kind::welcome); });
  EXPECT_EQ(reg.find("A")->info()->models, (std::vector<std::string>{"m", "n"}));
  EXPECT_EQ(reg.pools().size(), 2u);
  ASSERT_EQ(seen.notices.size(), 1u);
  EXPECT_EQ(seen.notices[0], "2 of its models are not served, the first is 'o': the router keeps at most 2 models, and has them");
  reg.models("A", metadata("\"n\",\"m\""));
  EXPECT_EQ(seen.notices.size(), 1u) << "known ones are served";
}

TEST_F(registry_of_two_workers, slots_taken_are_counted_while_leases_are_out_also_of_removed_agents) {
  connect(1);
  const auto who = a();
  const auto p = reg.find_pool("m");
  {
    pool_section section(*p);
    ASSERT_TRUE(p->take(0));
  }
  lease held(who, who->info(), p);
  EXPECT_EQ(reg.slots_taken(), 1);
  reg.goodbye("A");
  EXPECT_EQ(reg.slots_taken(), 1);
  connect(2);
  EXPECT_EQ(reg.slots_taken(), 1) << "the same agent, counted once";
  held.reset();
  EXPECT_EQ(reg.slots_taken(), 0);
}

TEST_F(registry_of_two_workers, further_links_need_the_owners_boot_id) {
  EXPECT_EQ(authenticate(2, 7, 1).kick_code, "removed");
  authenticate(1, 7);
  EXPECT_EQ(authenticate(2, 8, 1).kick_code, "duplicate");
  EXPECT_EQ(authenticate(2, 7, 1).what, kind::welcome);
}

TEST_F(registry_of_two_workers, the_same_process_replaces_its_link_and_keeps_everything) {
  connect(1);
  const auto who = a();
  const auto p = reg.find_pool("m");
  {
    pool_section section(*p);
    ASSERT_TRUE(p->take(0));
  }
  lease held(who, who->info(), p);
  reg.record_outcome(*who, {.generation = who->generation(), .success = false, .rtt_ms = 30, .input_tokens = 0, .output_tokens = 0,
                            .request_id = "r1", .kind = request_kind::stream});
  reg.heartbeat("A", false, "down");
  const uint64_t generation = who->generation();
  EXPECT_EQ(authenticate(99, 1).what, kind::welcome);
  ASSERT_EQ(links.kicked.size(), 1u);
  EXPECT_EQ(links.kicked[0], (std::pair<uint64_t, std::string>{10, "replaced"}));
  EXPECT_EQ(a(), who);
  EXPECT_GT(who->generation(), generation);
  EXPECT_EQ(who->slots.load().first, 1u);
  EXPECT_EQ(who->counters.streak, 1u);
  EXPECT_EQ(who->latency.value()->srtt_ms, 30);
  EXPECT_EQ(describe_standing(who->standing()), "engine down");
  EXPECT_EQ(log.lines, std::vector<std::string>{"srtt sample peer_id=A request_id=r1 r_ms=30 srtt_ms=30 rttvar_ms=15 stream=true"});
}

TEST_F(registry_of_two_workers, a_renewal_changes_nothing) {
  connect(1);
  const uint64_t generation = a()->generation(), epoch = reg.find_pool("m")->epoch();
  EXPECT_EQ(authenticate(10, 1, 0, "", true).what, kind::welcome);
  EXPECT_EQ(a()->generation(), generation);
  EXPECT_EQ(reg.find_pool("m")->epoch(), epoch);
  EXPECT_EQ(authenticate(55, 1, 0, "", true).kick_code, "removed");
  EXPECT_EQ(seen.events, std::vector<std::string>{"new A"});
}

TEST_F(registry_of_two_workers, a_second_process_is_refused_while_the_owner_answers) {
  connect(1);
  EXPECT_EQ(authenticate(20, 2).what, kind::wait_for_probe);
  ASSERT_EQ(links.probes.size(), 2u);
  links.probes[0].second(false);
  EXPECT_EQ(last->what, kind::wait_for_probe);
  links.probes[1].second(true);
  EXPECT_EQ(last->kick_code, "duplicate");
  EXPECT_EQ(last->retry_after_ms, 5000u);
  EXPECT_FALSE(last->final);
  EXPECT_NE(last->message.find("host1"), std::string::npos);
  EXPECT_EQ(seen.notices.back(), "a second process with this identity at host2 was refused, the owner at host1 is alive");
  EXPECT_TRUE(links.kicked.empty());
  clock.advance(4 * ns_per_s);
  EXPECT_EQ(authenticate(21, 2).kick_code, "duplicate");
  EXPECT_EQ(links.probes.size(), 2u);
  clock.advance(2 * ns_per_s);
  EXPECT_EQ(authenticate(22, 2).what, kind::wait_for_probe);
  EXPECT_EQ(links.probes.size(), 4u);
  EXPECT_TRUE(a()->routable());
}

TEST_F(registry_of_two_workers, a_silent_owner_is_replaced_with_all_its_links) {
  connect(1);
  const auto who = a();
  authenticate(20, 2);
  for (auto &[worker, reply] : links.probes) reply(false);
  EXPECT_EQ(last->what, kind::welcome);
  ASSERT_EQ(links.kicked.size(), 2u);
  EXPECT_EQ(links.kicked[0].second, "replaced");
  EXPECT_EQ(a(), who);
  EXPECT_EQ(a()->standing(), standing_unlinked);
  EXPECT_EQ(seen.notices.back(), "the process at host2 replaces the silent one at host1");
  EXPECT_EQ(links.words, "another process with this identity took over from host2");
  EXPECT_EQ(authenticate(21, 2, 1).what, kind::welcome);
  EXPECT_TRUE(a()->routable());
  EXPECT_EQ(authenticate(11, 1, 1).kick_code, "duplicate");
  reg.link_lost({0, 10}, "late news of a kicked link");
  EXPECT_TRUE(a()->routable());
}

TEST_F(registry_of_two_workers, an_owner_without_links_is_replaced_without_a_probe) {
  connect(1);
  reg.link_lost({0, 10}, "");
  reg.link_lost({1, 11}, "");
  EXPECT_EQ(authenticate(20, 2).what, kind::welcome);
  EXPECT_TRUE(links.probes.empty());
}

TEST_F(registry_of_two_workers, losing_the_owners_last_link_decides_a_running_probe) {
  connect(1);
  authenticate(20, 2);
  reg.link_lost({0, 10}, "");
  EXPECT_EQ(last->what, kind::wait_for_probe);
  reg.link_lost({1, 11}, "");
  EXPECT_EQ(last->what, kind::welcome);
  links.probes[0].second(true);                        // too late to matter
  EXPECT_EQ(authenticate(21, 2, 1).what, kind::welcome);
}

TEST_F(registry_of_two_workers, a_newcomer_that_goes_away_ends_its_probe) {
  connect(1);
  authenticate(20, 2);
  reg.link_lost({0, 20}, "");
  for (auto &[worker, reply] : links.probes) reply(false);
  EXPECT_TRUE(links.kicked.empty());
  EXPECT_TRUE(a()->routable());
}

TEST_F(registry_of_two_workers, silence_makes_unhealthy_then_removes) {
  connect(1);
  const auto who = a();
  const uint64_t generation = who->generation();
  auto wait = [&](int seconds) {
    for (int i = 0; i < seconds * 10; ++i) {
      clock.advance(100 * ns_per_ms);
      reg.tick();
    }
  };
  wait(14);
  EXPECT_TRUE(who->routable());
  wait(7);
  EXPECT_EQ(describe_standing(who->standing()), "silent");
  EXPECT_EQ(who->counters.agent_failures, 1u);
  reg.heartbeat("A", true, "");
  EXPECT_TRUE(who->routable());
  wait(36);
  EXPECT_EQ(a(), nullptr);
  EXPECT_EQ(who->counters.disconnections, 1u);
  EXPECT_EQ(who->counters.agent_failures, 2u);
  EXPECT_EQ(links.kicked.size(), 2u);
  EXPECT_EQ(seen.events.back(), "removed A");
  EXPECT_TRUE(reg.snapshot()->agents.empty());
  EXPECT_EQ(reg.find_pool("m"), nullptr);
  reg.record_outcome(*who, {.generation = generation, .success = true, .rtt_ms = 5, .input_tokens = 0, .output_tokens = 0,
                            .request_id = {}, .kind = request_kind::chat});
  EXPECT_EQ(who->counters.successful, 0u);
  EXPECT_EQ(reg.stats().dropped_outcomes, 1u);
}

TEST_F(registry_of_two_workers, an_agent_that_comes_back_while_leases_are_out_is_the_same_record) {
  connect(1);
  const auto p = reg.find_pool("m");
  lease held;
  {
    const auto who = a();
    {
      pool_section section(*p);
      ASSERT_TRUE(p->take(0));
    }
    held = lease(who, who->info(), p);
  }
  reg.goodbye("A");
  EXPECT_EQ(a(), nullptr);
  connect(2);
  EXPECT_EQ(a()->slots.load().first, 1u);
  EXPECT_TRUE(a()->routable());
  held.reset();
  EXPECT_EQ(reg.find_pool("m")->free_slots(), 2u);
}

TEST_F(registry_of_two_workers, models_move_between_pools) {
  connect(1);
  const auto m = reg.find_pool("m");
  reg.models("A", metadata("\"n\",\"o\"", 5));
  EXPECT_EQ(m->members(), 0u);
  EXPECT_EQ(reg.find_pool("n")->free_slots(), 5u);
  EXPECT_EQ(reg.find_pool("o")->members(), 1u);
  reg.models("A", "{}");
  EXPECT_EQ(reg.find_pool("n")->members(), 1u);
  EXPECT_EQ(reg.find_pool("x"), nullptr);
}

TEST_F(registry_of_two_workers, an_expired_session_gets_no_new_work_until_it_is_renewed_or_begun_again) {
  connect(1);
  const auto p = reg.find_pool("m");
  const auto who = a();
  std::optional<lease> running;
  {
    pool_section section(*p);
    ASSERT_TRUE(p->take(0));
  }
  running.emplace(who, who->info(), p);
  reg.expired("A", true);
  EXPECT_EQ(describe_standing(who->standing()), "session expired");
  EXPECT_EQ(p->free_slots(), 0u);
  {
    pool_section section(*p);
    EXPECT_FALSE(p->take(0));
  }
  EXPECT_EQ(who->slots.load().first, 1u) << "what runs goes on";

  reg.draining("A", true);
  reg.expired("A", false);                              // a late renewal says nothing about a drain
  EXPECT_EQ(describe_standing(who->standing()), "draining");
  reg.draining("A", false);
  EXPECT_EQ(p->free_slots(), 1u);

  reg.expired("A", true);
  EXPECT_EQ(authenticate(77, 1).what, kind::welcome);   // the same process on a new link 0
  EXPECT_TRUE(a()->routable());
  running.reset();
  EXPECT_EQ(p->free_slots(), 2u);
  reg.expired("nobody", true);
}

TEST_F(registry_of_two_workers, backend_failures_count_once_an_edge) {
  connect(1);
  for (bool ready : {true, false, false, true, false}) reg.heartbeat("A", ready, "");
  EXPECT_EQ(a()->counters.backend_failures, 2u);
}

TEST_F(registry_of_two_workers, other_routers_work_counts_against_the_capacity) {
  connect(1);
  reg.pong("A", {1, 0, 2}, {0, 10});
  EXPECT_EQ(reg.find_pool("m")->free_slots(), 1u);
  reg.pong("A", {5, 0, 2}, {0, 10});
  EXPECT_EQ(reg.find_pool("m")->free_slots(), 0u);
  reg.pong("A", {0, 0, 2}, {0, 10});
  EXPECT_EQ(reg.find_pool("m")->free_slots(), 2u);
}

TEST(metadata, names_the_field_that_is_wrong) {
  struct {
    const char *json;
    const char *path;
  } cases[] = {
      {"", "metadata"},
      {"[]", "metadata"},
      {R"({"capacity":1,"version":"1","engine":"e","region":"r","organization":"o"})", "metadata.model"},
      {R"({"model":"m","version":"1","engine":"e","region":"r","organization":"o"})", "metadata.capacity"},
      {R"({"model":"m","capacity":0,"version":"1","engine":"e","region":"r","organization":"o"})", "metadata.capacity"},
      {R"({"model":"m","capacity":-1,"version":"1","engine":"e","region":"r","organization":"o"})", "metadata.capacity"},
      {R"({"model":"m","capacity":1.5,"version":"1","engine":"e","region":"r","organization":"o"})", "metadata.capacity"},
      {R"({"model":"m","capacity":"1","version":"1","engine":"e","region":"r","organization":"o"})", "metadata.capacity"},
      {R"({"model":"m","capacity":1,"engine":"e","region":"r","organization":"o"})", "metadata.version"},
      {R"({"model":"m","capacity":1,"version":"1","region":"r","organization":"o"})", "metadata.engine"},
      {R"({"model":"m","capacity":1,"version":"1","engine":"e","organization":"o"})", "metadata.region"},
      {R"({"model":"m","capacity":1,"version":"1","engine":"e","region":"r"})", "metadata.organization"},
      {R"({"model":"m","capacity":1,"version":"1","engine":"e","region":"r","organization":"o","capability":"x"})", "metadata.capability"},
      {R"({"model":7,"capacity":1,"version":"1","engine":"e","region":"r","organization":"o"})", "metadata.model"},
      {R"({"models":["a",""],"capacity":1,"version":"1","engine":"e","region":"r","organization":"o"})", "metadata.models"},
      {R"({"model":"m","tags":"x","capacity":1,"version":"1","engine":"e","region":"r","organization":"o"})", "metadata.tags"},
      {R"({"model":"m\n","capacity":1,"version":"1","engine":"e","region":"r","organization":"o"})", "metadata.model"},
  };
  for (const auto &c : cases) {
    const result<agent_info> r = parse_metadata("A", c.json);
    ASSERT_FALSE(r.ok()) << c.json;
    EXPECT_EQ(r.why().path(), c.path) << c.json;
    EXPECT_FALSE(r.why().message().empty());
  }
  const std::string long_model = R"({"model":")" + std::string(300, 'm') + R"(","capacity":1,"version":"1","engine":"e","region":"r","organization":"o"})";
  EXPECT_EQ(parse_metadata("A", long_model).why().path(), "metadata.model");
  EXPECT_EQ(parse_metadata("A", std::string(70000, ' ')).why().path(), "metadata");
}

TEST_F(registry_of_two_workers, bad_metadata_is_refused_for_good_and_registers_nothing) {
  const link::auth_decision d = authenticate(1, 1, 0, "{\"model\":\"m\"}");
  EXPECT_EQ(d.kick_code, "metadata");
  EXPECT_TRUE(d.final);
  EXPECT_NE(d.message.find("metadata.capacity"), std::string::npos);
  EXPECT_EQ(a(), nullptr);
  connect(1);
}

}  // namespace
}  // namespace hive::fleet
