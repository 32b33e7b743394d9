#include "tenancy/quota.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tenancy/parking_bed.hpp"

namespace hive::tenancy {
namespace {

client_key key_of(const std::string &tenant, char hash = 1) {
  client_key k;
  k.hash.fill(static_cast<uint8_t>(hash));
  k.tenant = tenant;
  return k;
}

struct quotas : ::testing::Test {
  manual_clock clock;
  quota_book book{{}, clock};
  refusal why;

  caller whose(client_key k) { return std::make_shared<const client_key>(std::move(k)); }
  caller flat(uint64_t a_minute, uint64_t a_day) {
    client_key k = key_of("acme");
    k.requests_per_minute = a_minute;
    k.tokens_per_day = a_day;
    return whose(k);
  }
  caller shaped(std::vector<model_quota> models) {
    client_key k = key_of("acme");
    k.per_model_quota = true;
    for (const model_quota &q : models) k.models.push_back(q.model);
    k.per_model = std::move(models);
    return whose(k);
  }
  std::string line(quota_use &use, const std::string &name) {
    const std::string all = use.header_lines(), start = "X-RateLimit-" + name + ": ";
    const size_t at = all.find(start);
    return at == std::string::npos ? "" : all.substr(at + start.size(), all.find('\r', at) - at - start.size());
  }
};

TEST_F(quotas, only_keys_with_limits_are_concerned) {
  client_key k = key_of("acme");
  k.input_tokens_per_minute = 5;
  EXPECT_FALSE(quota_book::concerns(k));
  for (auto limit : {&client_key::requests_per_minute, &client_key::tokens_per_day}) {
    client_key limited = k;
    limited.*limit = 1;
    EXPECT_TRUE(quota_book::concerns(limited));
  }
  k.max_parallel_requests_per_model = 1;
  EXPECT_TRUE(quota_book::concerns(k));
}

TEST_F(quotas, flat_requests_are_the_tenants_whatever_the_model_and_the_agents) {
  const caller who = flat(2, 0);
  for (int i = 0; i < 2; ++i) {
    quota_use use(book, who);
    EXPECT_TRUE(use.take_request(why));
    EXPECT_TRUE(use.take_request("m", 3, why)) << "not asked a second time";
    EXPECT_EQ(line(use, "Limit-Requests"), "2");
    EXPECT_EQ(line(use, "Remaining-Requests"), std::to_string(1 - i));
    EXPECT_EQ(line(use, "Remaining-Tokens"), "");
  }
  quota_use third(book, who);
  EXPECT_FALSE(third.take_request(why));
  EXPECT_EQ(to_string(why.by), "b4_rpm");
  EXPECT_EQ(why.code, "rate_limit_exceeded");
  EXPECT_EQ(why.retry_after_s, 30u);
  EXPECT_EQ(line(third, "Remaining-Requests"), "0");
  EXPECT_EQ(line(third, "Reset-Requests"), "60");
}

TEST_F(quotas, requests_of_a_model_count_times_its_agents_and_each_model_by_itself) {
  const caller who = shaped({{"a", 2, 0}, {"b", 2, 0}, {"free", 0, 0}});
  int admitted = 0;
  for (int i = 0; i < 10; ++i) {
    quota_use use(book, who);
    ASSERT_TRUE(use.take_request(why)) << "a flat limit there is not";
    admitted += use.take_request("a", 3, why);
    if (i == 0) {
      EXPECT_EQ(line(use, "Limit-Requests"), "6");
    }
  }
  EXPECT_EQ(admitted, 6);
  quota_use other(book, who), none(book, who), free(book, who);
  EXPECT_TRUE(other.take_request("b", 1, why));
  EXPECT_TRUE(none.take_request("a", 0, why)) << "no agent: routing tells the cause";
  EXPECT_EQ(none.header_lines(), "");
  EXPECT_TRUE(free.take_request("free", 1, why));
  EXPECT_EQ(free.header_lines(), "");
  EXPECT_FALSE(quota_use(book, who).take_request("a", 3, why));
  EXPECT_EQ(why.retry_after_s, 10u);
}

// Naive variant: the limit is the key's, whatever the number of agents.
TEST_F(quotas, ten_a_minute_of_a_model_with_three_agents_are_thirty) {
  const caller who = shaped({{"m", 10, 0}});
  int admitted = 0;
  for (int i = 0; i < 40; ++i) {
    quota_use use(book, who);
    admitted += use.take_request("m", 3, why);
    EXPECT_EQ(line(use, "Limit-Requests"), "30");
  }
  EXPECT_EQ(admitted, 30);
  quota_use fourth(book, who);
  EXPECT_FALSE(fourth.take_request("m", 4, why)) << "another agent is no refill: the time so far counts at the old rate";
  clock.advance(2 * ns_per_s);
  EXPECT_TRUE(fourth.take_request("m", 4, why));
  EXPECT_EQ(line(fourth, "Limit-Requests"), "40");
}

// Naive variants: no agent means no request may come; where requests are not counted, tokens are not either.
TEST_F(quotas, without_agents_requests_of_a_model_are_not_counted_and_its_tokens_of_the_day_are) {
  const caller who = shaped({{"m", 1, 10}});
  for (int i = 0; i < 3; ++i) {
    quota_use use(book, who);
    ASSERT_TRUE(use.take_request(why));
    EXPECT_TRUE(use.take_request("m", 0, why)) << i;
    EXPECT_TRUE(use.take_tokens("m", 3, 0, why)) << i;
    use.reached();
  }
  EXPECT_EQ(book.requests().size(), 0u);
  quota_use over(book, who);
  EXPECT_TRUE(over.take_request("m", 0, why));
  EXPECT_FALSE(over.take_tokens("m", 2, 0, why)) << "one of ten is left";
  EXPECT_EQ(why.code, "token_limit_exceeded");
  EXPECT_EQ(line(over, "Remaining-Tokens"), "1");
}

TEST_F(quotas, a_model_without_a_quota_has_nothing_left) {
  quota_use use(book, shaped({{"a", 2, 0}}));
  use.no_quota();
  EXPECT_EQ(line(use, "Remaining-Requests"), "0");
  EXPECT_EQ(book.requests().size(), 0u) << "a client's word makes no bucket";
}

TEST_F(quotas, tokens_are_taken_before_and_put_right_after) {
  const caller who = flat(0, 100);
  quota_use use(book, who);
  EXPECT_TRUE(use.take_tokens("m", 10, 60, why));
  EXPECT_EQ(line(use, "Limit-Tokens"), "100");
  EXPECT_EQ(line(use, "Remaining-Tokens"), "90") << "what may be generated is not taken";
  use.reached();
  EXPECT_TRUE(use.settle(12, 20));
  EXPECT_EQ(line(use, "Remaining-Tokens"), "68");
  EXPECT_TRUE(use.settle(1, 1)) << "once";
  EXPECT_EQ(book.days().used("acme"), 32u);

  quota_use large(book, who);
  EXPECT_FALSE(large.take_tokens("m", 10, 59, why));
  EXPECT_EQ(why.code, "token_limit_exceeded");
  EXPECT_EQ(why.retry_after_s, book.days().seconds_left());
  EXPECT_EQ(line(large, "Remaining-Tokens"), "68") << "the current one, which may be above 0";
  EXPECT_TRUE(large.settle(500, 500)) << "what was refused costs nothing";
  EXPECT_EQ(book.days().used("acme"), 32u);

  quota_use last(book, who);
  ASSERT_TRUE(last.take_tokens("m", 10, 0, why));
  last.reached();
  EXPECT_FALSE(last.settle(10, 1000));
  EXPECT_FALSE(last.settle(10, 1000));
  EXPECT_EQ(line(last, "Remaining-Tokens"), "0");
}

TEST_F(quotas, what_never_reached_an_agent_costs_nothing_and_what_did_costs_its_prompt) {
  const caller who = flat(0, 100);
  {
    quota_use lost(book, who);
    ASSERT_TRUE(lost.take_tokens("m", 10, 0, why));
  }
  EXPECT_EQ(book.days().used("acme"), 0u);
  {
    quota_use failed(book, who);
    ASSERT_TRUE(failed.take_tokens("m", 10, 0, why));
    failed.reached();
  }
  EXPECT_EQ(book.days().used("acme"), 10u);
}

TEST_F(quotas, budgets_of_models_are_apart) {
  const caller who = shaped({{"a", 0, 100}, {"b", 0, 100}, {"free", 0, 0}});
  quota_use a(book, who), b(book, who), free(book, who);
  EXPECT_TRUE(a.take_tokens("a", 90, 0, why));
  EXPECT_EQ(line(a, "Remaining-Tokens"), "10");
  EXPECT_TRUE(b.take_tokens("b", 90, 0, why));
  EXPECT_EQ(line(b, "Remaining-Tokens"), "10");
  EXPECT_TRUE(free.take_tokens("free", UINT64_MAX, UINT64_MAX, why));
  EXPECT_EQ(free.header_lines(), "");
}

TEST_F(quotas, keys_of_one_tenant_share_and_the_largest_limit_counts) {
  client_key small = key_of("acme", 1), large = key_of("acme", 2), off = key_of("acme", 3), none = key_of("acme", 4), other = key_of("beta", 5);
  small.requests_per_minute = 2;
  small.tokens_per_day = 10;
  large.requests_per_minute = 5;
  large.tokens_per_day = 100;
  off.enabled = false;
  off.requests_per_minute = 50;
  const auto keys = keyring::of({small, large, off, none, other});
  const auto of = [&](size_t i) { return caller(keys, &keys->keys()[i]); };
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(quota_use(book, of(static_cast<size_t>(i % 2))).take_request(why)) << i;
  EXPECT_FALSE(quota_use(book, of(0)).take_request(why));
  EXPECT_FALSE(quota_use(book, of(1)).take_request(why));
  EXPECT_TRUE(quota_use(book, of(3)).take_request(why)) << "a key without a limit has none";
}

// Each call with its own key's limit would clip the bucket to 2.
TEST_F(quotas, keys_of_one_tenant_share_the_limits_of_a_model_too_and_the_largest_counts) {
  const auto key_with = [](char hash, uint64_t a_minute, uint64_t a_day) {
    client_key k = key_of("acme", hash);
    k.per_model_quota = true;
    k.models = {"m"};
    k.per_model = {{"m", a_minute, a_day}};
    return k;
  };
  client_key off = key_with(3, 50, 5000), old = key_with(4, 60, 6000), other = key_with(6, 90, 9000);
  off.enabled = false;
  old.expires_unix_ms = 1000;
  other.tenant = "beta";
  const auto keys = keyring::of({key_with(1, 2, 10), key_with(2, 5, 100), off, old, key_with(5, 0, 0), other}, auth_mode::api_key, 1000);
  const auto of = [&](size_t i) { return caller(keys, &keys->keys()[i]); };
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(quota_use(book, of(static_cast<size_t>(i % 2))).take_request("m", 2, why)) << i;
  for (const size_t i : {size_t{0}, size_t{1}}) EXPECT_FALSE(quota_use(book, of(i)).take_request("m", 2, why));
  EXPECT_TRUE(quota_use(book, of(4)).take_request("m", 2, why)) << "a key without a limit has none";
  quota_use tokens(book, of(0));
  EXPECT_TRUE(tokens.take_tokens("m", 90, 0, why));
  EXPECT_EQ(line(tokens, "Limit-Tokens"), "100");
  book.set_keys(keys);
  const auto rows = book.usage();
  ASSERT_EQ(rows.size(), 2u);
  ASSERT_NE(rows[0].models, nullptr);
  ASSERT_EQ(rows[0].models->size(), 1u);
  EXPECT_EQ(rows[0].models->front().requests_per_minute_per_replica, 5u);
}

TEST_F(quotas, a_key_that_has_expired_when_the_ring_is_made_has_no_part_in_shared_limits) {
  client_key small = key_of("acme", 1), old = key_of("acme", 2);
  small.requests_per_minute = 2;
  old.requests_per_minute = 50;
  old.expires_unix_ms = 1000;
  EXPECT_EQ(keyring::of({small, old}, auth_mode::api_key, 999)->keys()[0].of_tenant.requests_per_minute, 50u);
  const auto keys = keyring::of({small, old}, auth_mode::api_key, 1000);
  EXPECT_EQ(keys->keys()[0].of_tenant.requests_per_minute, 2u);
  book.set_keys(keys);
  EXPECT_EQ(book.usage().at(0).requests_a_minute, 2u);
  EXPECT_TRUE(unequal_limits(*keys).empty());
}

TEST_F(quotas, limits_and_usage_are_told_by_tenant_and_go_with_the_last_key) {
  client_key per_model = key_of("acme", 1), plain = key_of("beta", 2);
  per_model.per_model_quota = true;
  per_model.models = {"a", "b"};
  per_model.per_model = {{"a", 10, 100}, {"b", 0, 100}};
  plain.requests_per_minute = 96;
  const auto keys = keyring::of({per_model, plain});
  book.set_keys(keys);
  for (const char *model : {"a", "b"}) {
    quota_use use(book, caller(keys, &keys->keys()[0]));
    ASSERT_TRUE(use.take_tokens(model, 30, 0, why));
    use.reached();
  }
  auto rows = book.usage();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].tenant, "acme");
  EXPECT_EQ(rows[0].used_today, 60u) << "of all its models, not of the one that was last asked";
  ASSERT_NE(rows[0].models, nullptr);
  EXPECT_EQ(rows[0].models->size(), 2u);
  EXPECT_TRUE(rows[0].counts_tokens);
  EXPECT_EQ(rows[1].requests_a_minute, 96u);
  EXPECT_FALSE(rows[1].counts_tokens);
  book.set_keys(keyring::of({plain}));
  EXPECT_EQ(book.usage().size(), 1u);
  book.set_keys(keyring::open_to_all());
  EXPECT_TRUE(book.usage().empty());
}

struct own_turn final : parallel_turn {
  explicit own_turn(loop &home) : parallel_turn(home) {}
  void on_turn() override { ++turns; }
  int turns = 0;
};

// Naive variant: the line is not told of new keys, and waits by the limits of those that were.
TEST_F(quotas, other_keys_let_in_who_waits_by_their_limits) {
  loop home;
  own_turn first(home), second(home), third(home), fourth(home);
  using turn_answer = parallel_limit::answer;
  const auto key_with = [](char hash, uint32_t most) {
    client_key k = key_of("acme", hash);
    k.id = "k";
    k.max_parallel_requests = most;
    return k;
  };
  const auto keys_are = [&](std::vector<client_key> keys) {
    book.set_keys(keyring::of(std::move(keys), auth_mode::api_key, 1000));
    testing::settle(home);
  };
  const parallel_ask asked{"k", "m", 1, 0, true};
  keys_are({key_with(1, 1)});
  EXPECT_EQ(book.parallel().take(first, asked), turn_answer::granted);
  EXPECT_EQ(book.parallel().take(second, asked), turn_answer::waits);
  EXPECT_EQ(book.parallel().take(third, asked), turn_answer::waits);
  client_key old = key_with(2, 8);
  old.expires_unix_ms = 1000;
  keys_are({key_with(1, 1), old});
  EXPECT_EQ(second.turns, 0) << "a key that has expired widens nothing";
  keys_are({key_with(1, 1), key_with(2, 2)});
  EXPECT_EQ(second.turns, 1) << "of two keys of one id the wider limit holds";
  EXPECT_EQ(third.turns, 0);
  keys_are({key_with(1, 4)});
  EXPECT_EQ(third.turns, 1);
  EXPECT_EQ(book.parallel().take(fourth, asked), turn_answer::granted) << "let in with the key as it was";
}

}  // namespace
}  // namespace hive::tenancy
