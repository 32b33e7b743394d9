// What every storage backend must do with records.
#include "loaded_storage.hpp"

#include <algorithm>
#include <random>
#include <thread>

namespace hive::conformance {
namespace {

class every_storage : public testing::TestWithParam<const char *> {
 protected:
  void SetUp() override {
    ASSERT_EQ(store.created, HIVE_OK) << store.words;
    ASSERT_EQ(store.open(), HIVE_OK) << store.words;
  }
  bool lmdb() const { return std::string(GetParam()) == "storage_lmdb"; }
  temporary_directory directory;
  loaded_storage store{GetParam(),
                       lmdb() ? R"({"path":")" + directory.path() + R"(/store","map_size_mb":8,"max_map_size_mb":64,"sync":true})" : "{\"max_mb\":64}"};
};
INSTANTIATE_TEST_SUITE_P(, every_storage, testing::Values("storage_memory", "storage_lmdb"), [](const auto &p) { return std::string(p.param); });

TEST_P(every_storage, keeps_replaces_and_erases) {
  EXPECT_EQ(store.value("a"), std::nullopt);
  EXPECT_EQ(store.write({put("a", "1")}), HIVE_OK);
  EXPECT_EQ(store.value("a"), "1");
  EXPECT_EQ(store.write({put("a", "")}), HIVE_OK);
  EXPECT_EQ(store.value("a"), "");
  EXPECT_EQ(store.write({erase("a"), erase("a"), erase("never")}), HIVE_OK);
  EXPECT_EQ(store.value("a"), std::nullopt);
  const std::string binary("\0\xff\n\0", 4);
  EXPECT_EQ(store.write({put(binary, binary)}), HIVE_OK);
  EXPECT_EQ(store.value(binary), binary);
  EXPECT_EQ(store.write({}), HIVE_OK);
}

TEST_P(every_storage, scans_a_prefix_in_byte_order_up_to_what_the_visitor_wants) {
  const std::string high("b\xff", 2), higher("b\xff\xff", 3);
  EXPECT_EQ(store.write({put("b2", ""), put("a", ""), put("b", ""), put("c", ""), put("b10", ""), put(high, ""), put(higher, "")}), HIVE_OK);
  EXPECT_EQ(store.keys("b"), (std::vector<std::string>{"b", "b10", "b2", high, higher}));
  EXPECT_EQ(store.keys(high), (std::vector<std::string>{high, higher}));
  EXPECT_EQ(store.keys("").size(), 7u);
  EXPECT_EQ(store.keys("zzz").size(), 0u);
  EXPECT_EQ(store.scan("b", 2).size(), 2u);
}

TEST_P(every_storage, writes_all_or_nothing) {
  EXPECT_EQ(store.write({put("keep", "old"), put("text", "no counter")}), HIVE_OK);
  EXPECT_EQ(store.write({put("keep", "new"), put("more", "x"), erase("text"), add("n", 1), put("text", "abc"), add("text", 1)}), HIVE_E_ARGUMENT);
  EXPECT_NE(store.words.find("counter"), std::string::npos) << store.words;
  EXPECT_EQ(store.value("keep"), "old");
  EXPECT_EQ(store.value("more"), std::nullopt);
  EXPECT_EQ(store.value("n"), std::nullopt);
  EXPECT_EQ(store.value("text"), "no counter");
}

TEST_P(every_storage, adds) {
  std::vector<int64_t> results;
  EXPECT_EQ(store.write({add("n", 5), add("n", -7), add("m", INT64_MAX)}, &results), HIVE_OK);
  EXPECT_EQ(results, (std::vector<int64_t>{5, -2, INT64_MAX}));
  EXPECT_EQ(store.value("n"), std::string("\xfe\xff\xff\xff\xff\xff\xff\xff"));
  EXPECT_EQ(store.write({add("m", 1)}), HIVE_E_ARGUMENT);
  EXPECT_NE(store.words.find("int64"), std::string::npos);
  EXPECT_EQ(store.write({add("m", INT64_MIN)}, &results), HIVE_OK);
  EXPECT_EQ(results[0], -1);
}

TEST_P(every_storage, add_sets_the_expiry_only_when_it_creates) {
  const uint64_t later = unix_ms() + 3'600'000;
  std::optional<stored> r;
  EXPECT_EQ(store.write({add("n", 1, later)}), HIVE_OK);
  EXPECT_EQ(store.write({add("n", 1, later + 5)}), HIVE_OK);
  ASSERT_EQ(store.read("n", r), HIVE_OK);
  EXPECT_EQ(r->expires, later);
  std::vector<int64_t> results;
  EXPECT_EQ(store.write({put("old", std::string(8, '\x01'), unix_ms() - 1)}), HIVE_OK);
  EXPECT_EQ(store.write({add("old", 3, later)}, &results), HIVE_OK);
  EXPECT_EQ(results[0], 3);
  ASSERT_EQ(store.read("old", r), HIVE_OK);
  EXPECT_EQ(r->expires, later);
}

TEST_P(every_storage, expired_reads_as_missing_from_that_instant) {
  const uint64_t soon = unix_ms() + 30;
  EXPECT_EQ(store.write({put("p", "x", unix_ms() - 1), put("s", "x", soon), put("f", "x", soon + 3'600'000), put("z", "x")}), HIVE_OK);
  EXPECT_EQ(store.value("p"), std::nullopt);
  EXPECT_EQ(store.value("f"), "x");
  while (unix_ms() < soon) std::this_thread::yield();
  EXPECT_EQ(store.value("s"), std::nullopt);
  EXPECT_EQ(store.keys(""), (std::vector<std::string>{"f", "z"}));
  EXPECT_EQ(store.write({put("s", "again")}), HIVE_OK);
  EXPECT_EQ(store.value("s"), "again");
}

TEST_P(every_storage, sweeps_the_expired_a_bounded_number_a_call) {
  std::vector<operation> ops;
  for (int i = 0; i < 3000; ++i) ops.push_back(put("gone" + std::to_string(i), "x", 1));
  ops.push_back(put("live", "x", unix_ms() + 3'600'000));
  ops.push_back(put("zlive", "x"));
  ASSERT_EQ(store.write(ops), HIVE_OK);
  EXPECT_EQ(store.stats().last_sweep_unix_ms, 0u);
  ASSERT_EQ(store.sweep(), HIVE_OK);
  EXPECT_GE(store.stats().entries, 1002u);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(store.sweep(), HIVE_OK);
  const auto s = store.stats();
  EXPECT_EQ(s.entries, 2u);
  EXPECT_EQ(s.expired_total, 3000u);
  EXPECT_NE(s.last_sweep_unix_ms, 0u);
  EXPECT_EQ(store.keys(""), (std::vector<std::string>{"live", "zlive"}));
}

TEST_P(every_storage, holds_a_thousand_records_and_counts_them) {
  std::vector<std::string> names;
  std::vector<operation> ops;
  for (int i = 0; i < 1000; ++i) names.push_back("key:" + std::to_string(i));
  for (const auto &n : names) ops.push_back(put(n, n + "!"));
  std::shuffle(ops.begin(), ops.end(), std::mt19937(7));
  ASSERT_EQ(store.write(ops), HIVE_OK);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(store.keys("key:"), names);
  for (const auto &n : names) EXPECT_EQ(store.value(n), n + "!");
  const auto s = store.stats();
  EXPECT_EQ(s.entries, 1000u);
  EXPECT_GT(s.used_bytes, 10'000u);
  EXPECT_EQ(s.capacity_bytes, 64u << 20);
}

TEST_P(every_storage, keeps_keys_up_to_1024_bytes_in_order) {
  std::vector<std::string> names;
  std::mt19937 random(3);
  for (const size_t length : {1u, 494u, 495u, 496u, 510u, 511u, 512u, 513u, 700u, 1024u})
    for (const char tail : {'a', 'b', 'z'}) names.push_back(std::string(length - 1, 'k') + tail);
  std::vector<operation> ops;
  for (const auto &n : names) ops.push_back(put(n, n.substr(n.size() / 2)));
  std::shuffle(ops.begin(), ops.end(), random);
  ASSERT_EQ(store.write(ops), HIVE_OK) << store.words;
  std::sort(names.begin(), names.end());
  EXPECT_EQ(store.keys(""), names);
  for (const auto &n : names) EXPECT_EQ(store.value(n), n.substr(n.size() / 2)) << n.size();
  for (const size_t cut : {400u, 495u, 500u, 600u, 1024u}) {
    const std::string prefix(cut, 'k');
    std::vector<std::string> expected;
    for (const auto &n : names)
      if (n.starts_with(prefix)) expected.push_back(n);
    EXPECT_EQ(store.keys(prefix), expected) << cut;
  }
  EXPECT_EQ(store.scan(std::string(495, 'k'), 3).size(), 3u);
  ASSERT_EQ(store.write({erase(std::string(699, 'k') + "a"), add("n" + std::string(800, 'x'), 4)}), HIVE_OK);
  EXPECT_EQ(store.value(std::string(699, 'k') + "a"), std::nullopt);
  EXPECT_EQ(store.keys("").size(), names.size());
}

TEST_P(every_storage, refuses_bad_arguments_in_words) {
  struct row { operation op; const char *words; } const rows[] = {
      {put("", "x"), "0 bytes"},
      {put(std::string(1025, 'k'), "x"), "1025 bytes"},
      {put("k", std::string((16u << 20) + 1, 'v')), "16 MiB"},
      {operation(9, "k"), "unknown kind 9"},
  };
  for (const auto &r : rows) {
    EXPECT_EQ(store.write({put("fine", "x"), r.op}), HIVE_E_ARGUMENT);
    EXPECT_NE(store.words.find(r.words), std::string::npos) << store.words;
    EXPECT_NE(store.words.find("operation 1"), std::string::npos) << store.words;
  }
  EXPECT_EQ(store.value("fine"), std::nullopt);
  std::optional<stored> r;
  EXPECT_EQ(store.read("", r), HIVE_E_ARGUMENT);
  EXPECT_EQ(store.read(std::string(1025, 'k'), r), HIVE_E_ARGUMENT);
}

TEST_P(every_storage, holds_a_value_of_16_MiB) {
  const std::string big(16u << 20, 'v');
  ASSERT_EQ(store.write({put("big", big)}), HIVE_OK) << store.words;
  EXPECT_EQ(store.value("big"), big);
}

TEST_P(every_storage, says_when_it_is_full_and_goes_on) {
  hive_status s = HIVE_OK;
  int written = 0;
  for (; written < 100 && s == HIVE_OK; ++written) s = store.write({put("k" + std::to_string(written), std::string(4u << 20, 'v'))});
  ASSERT_EQ(s, HIVE_E_EXHAUSTED);
  EXPECT_NE(store.words.find("full"), std::string::npos) << store.words;
  EXPECT_NE(store.words.find("max_m"), std::string::npos) << store.words;
  EXPECT_EQ(store.value("k" + std::to_string(written - 1)), std::nullopt);
  EXPECT_EQ(store.value("k0"), std::string(4u << 20, 'v'));
  ASSERT_EQ(store.write({erase("k0"), erase("k1"), erase("k2")}), HIVE_OK) << store.words;
  EXPECT_EQ(store.write({put("new", std::string(1u << 20, 'v'))}), HIVE_OK) << store.words;
}

TEST_P(every_storage, keeps_deadlines) {
  std::optional<stored> r;
  ASSERT_EQ(store.write({put("a", "1")}), HIVE_OK);
  hive_status s = HIVE_OK;
  EXPECT_EQ(store.write({put("b", "1")}, nullptr, 1), HIVE_E_TIMEOUT);
  EXPECT_EQ(store.read("a", r, 1), HIVE_E_TIMEOUT);
  store.scan("", SIZE_MAX, &s, 1);
  EXPECT_EQ(s, HIVE_E_TIMEOUT);
  EXPECT_EQ(store.value("b"), std::nullopt);
}

TEST_P(every_storage, lets_a_visitor_read_but_not_write_or_close) {
  ASSERT_EQ(store.write({put("a", "1"), put("b", "2")}), HIVE_OK);
  struct state { loaded_storage *store; int seen = 0; } st{&store};
  hive_visitor v{sizeof v, 0, &st, [](void *c, hive_bytes, hive_bytes, uint64_t) noexcept -> int32_t {
                   auto &me = *static_cast<state *>(c);
                   me.store->close();
                   EXPECT_EQ(me.store->value("b"), "2");
                   EXPECT_EQ(me.store->keys("").size(), 2u);
                   EXPECT_EQ(me.store->write({erase("b")}), HIVE_E_ARGUMENT);
                   EXPECT_EQ(me.store->sweep(), HIVE_E_ARGUMENT);
                   return ++me.seen, 0;
                 }};
  EXPECT_EQ(store.table().scan(store.self(), bytes(""), 0, &v), HIVE_OK);
  EXPECT_EQ(st.seen, 2);
}

TEST_P(every_storage, closes_once_whoever_asks_and_how_often) {
  ASSERT_EQ(store.write({put("a", "1")}), HIVE_OK);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { store.close(); });
  for (auto &t : threads) t.join();
  store.close();
  std::optional<stored> r;
  EXPECT_EQ(store.read("a", r), HIVE_E_UNAVAILABLE);
  EXPECT_EQ(store.write({put("a", "2")}), HIVE_E_UNAVAILABLE);
  EXPECT_NE(store.words.find("not open"), std::string::npos);
  EXPECT_EQ(store.open(), HIVE_OK);
  EXPECT_EQ(store.write({put("a", "2")}), HIVE_OK);
}

TEST_P(every_storage, refuses_a_stats_struct_without_room) {
  hive_storage_stats s{};
  s.struct_size = 8;
  EXPECT_EQ(store.table().stats(store.self(), &s), HIVE_E_ARGUMENT);
}

}  // namespace
}  // namespace hive::conformance
