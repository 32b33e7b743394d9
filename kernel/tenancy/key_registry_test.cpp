#include "tenancy/key_registry.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <deque>
#include <thread>

#include "base/loop.hpp"
#include "http/message.hpp"

namespace hive::tenancy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Answers when it is told to, as a storage does.
struct fake_key_store final : key_store {
  result<key_set> read_all() override {
    if (broken) return fail(errc::unavailable, "broken");
    return kept;
  }
  void write(const key_set &before, const key_set &after, done_fn done) override {
    jobs.push_back([this, before, after, done] {
      if (broken) return done(fail(errc::exhausted, "disk full"));
      EXPECT_EQ(before.version, kept.version);
      kept = after;
      done({});
    });
  }
  void work() {
    while (!jobs.empty()) {
      const auto job = std::move(jobs.front());
      jobs.pop_front();
      job();
    }
  }
  key_set kept;
  std::deque<std::function<void()>> jobs;
  bool broken = false;
};

key_entry entry(const std::string &id, const std::string &text, const std::string &tenant = "acme") {
  key_entry out;
  out.key.id = id;
  out.key.hash = sha256(text);
  out.key.tenant = tenant;
  out.key.name = "n";
  return out;
}

struct registry : ::testing::Test {
  void open(bool strict = false, bool keep = true) {
    keys = std::make_unique<key_registry>(key_registry::surroundings{
        .fits = [this](const keyring &ring) { return fits ? fits(ring) : status(); },
        .publish = [this](std::shared_ptr<const keyring> ring, std::function<void()> everywhere) {
          published.push_back(std::move(ring));
          if (hold_workers) waiting.push_back(std::move(everywhere));
          else everywhere();
        },
        .store = keep ? &store : nullptr,
        .strict_versions = strict});
  }
  void SetUp() override { open(); }

  // The answer of one change, once the storage did its part: "ok", "none yet", or the code and the words.
  struct answer {
    std::string text = "none yet";
    key_registry::done_fn fn() {
      return [this](const status &s) {
        EXPECT_EQ(text, "none yet") << "answered twice";
        text = s ? "ok" : std::string(to_string(s.code())) + ": " + s.text();
      };
    }
  };
  std::string put(key_entry e, const std::string &version) {
    answer a;
    keys->put(std::move(e), version, "a test", a.fn());
    store.work();
    return a.text;
  }
  std::string erase(const std::string &id, const std::string &version) {
    answer a;
    keys->erase(id, version, "a test", a.fn());
    store.work();
    return a.text;
  }
  std::string replace(std::vector<key_entry> all, const std::string &version) {
    answer a;
    keys->replace(std::move(all), version, "a test", a.fn());
    store.work();
    return a.text;
  }
  bool opens(const std::string &text) const {
    return keys->keys()->identify(std::vector<http::field>{{"Authorization", "Bearer " + text}}, 1000).who != nullptr;
  }
  std::vector<std::string> ids() const {
    std::vector<std::string> out;
    for (const auto &[id, e] : keys->now().entries) out.push_back(id);
    return out;
  }

  fake_key_store store;
  std::function<status(const keyring &)> fits;
  std::vector<std::shared_ptr<const keyring>> published;
  std::vector<std::function<void()>> waiting;
  bool hold_workers = false;
  std::unique_ptr<key_registry> keys;
};

TEST_F(registry, starts_empty_and_opens_to_nobody) {
  EXPECT_TRUE(keys->restore().ok());
  EXPECT_EQ(keys->keys()->mode(), auth_mode::dynamic);
  EXPECT_EQ(keys->now().version, "");
  EXPECT_FALSE(opens("anything"));
  EXPECT_EQ(keys->keys()->identify({}, 0).why, denial::no_key);
}

TEST_F(registry, a_key_is_written_replaced_and_deleted_by_its_id) {
  EXPECT_EQ(put(entry("b", "first"), "1"), "ok");
  EXPECT_EQ(put(entry("a", "other"), "1"), "ok") << "the version that holds may be used again";
  EXPECT_TRUE(opens("first") && opens("other"));
  EXPECT_THAT(ids(), ElementsAre("a", "b"));
  EXPECT_EQ(keys->keys()->identify(std::vector<http::field>{{"x-api-key", "first"}}, 0).who->id, "b");
  EXPECT_EQ(put(entry("b", "second"), "2"), "ok");
  EXPECT_FALSE(opens("first")) << "the old hash dies at once";
  EXPECT_TRUE(opens("second"));
  EXPECT_EQ(erase("b", "3"), "ok");
  EXPECT_FALSE(opens("second"));
  EXPECT_EQ(erase("nobody", "4"), "ok");
  EXPECT_EQ(keys->now().version, "4") << "a delete of nothing sets it too";
}

TEST_F(registry, a_stale_version_changes_nothing_on_all_three_and_bytes_are_compared) {
  ASSERT_EQ(put(entry("a", "k"), "9"), "ok");
  EXPECT_EQ(put(entry("b", "l"), "10"), "conflict: stale version") << "text, not numbers";
  EXPECT_EQ(erase("a", "10"), "conflict: stale version");
  EXPECT_EQ(replace({}, "10"), "conflict: stale version");
  EXPECT_EQ(put(entry("b", "l"), "\xc3\xa9"), "ok") << "bytes are not signed";
  for (const std::string &bad : {std::string(), std::string(201, 'v'), std::string("\n"), std::string("\xff")}) {
    EXPECT_THAT(put(entry("c", "m"), bad), HasSubstr("invalid: version")) << bad;
    EXPECT_THAT(erase("a", bad), HasSubstr("invalid: version"));
    EXPECT_THAT(replace({}, bad), HasSubstr("invalid: version"));
  }
  EXPECT_THAT(ids(), ElementsAre("a", "b"));
  EXPECT_THAT(published, ::testing::SizeIs(2));
}

TEST_F(registry, with_strict_versions_one_that_holds_may_only_be_repeated) {
  open(true);
  ASSERT_EQ(put(entry("a", "k"), "1"), "ok");
  EXPECT_EQ(put(entry("a", "k"), "1"), "ok");
  EXPECT_EQ(erase("nobody", "1"), "ok");
  EXPECT_EQ(replace({entry("a", "k")}, "1"), "ok");
  EXPECT_THAT(put(entry("a", "k", "beta"), "1"), HasSubstr("conflict: this version"));
  EXPECT_THAT(erase("a", "1"), HasSubstr("conflict: this version"));
  EXPECT_THAT(replace({}, "1"), HasSubstr("conflict: this version"));
  EXPECT_TRUE(opens("k"));
  EXPECT_EQ(erase("a", "2"), "ok");
}

TEST_F(registry, a_hash_has_one_entry) {
  ASSERT_EQ(put(entry("a", "k"), "1"), "ok");
  EXPECT_EQ(put(entry("b", "k"), "2"), "invalid: key_hash is that of key \"a\" already; a key has one entry");
  EXPECT_EQ(put(entry("a", "k", "beta"), "2"), "ok");
  EXPECT_THAT(replace({entry("c", "x"), entry("d", "x")}, "3"), HasSubstr("invalid: key_hash of \"d\" is that of \"c\""));
  EXPECT_THAT(replace({entry("c", "x"), entry("c", "y")}, "3"), HasSubstr("invalid: the id \"c\" stands in two entries"));
  EXPECT_EQ(keys->now().version, "2");
  EXPECT_TRUE(opens("k"));
  EXPECT_EQ(replace({entry("b", "k"), entry("a", "x")}, "3"), "ok") << "a hash may move within one call";
  EXPECT_THAT(ids(), ElementsAre("a", "b"));
}

TEST_F(registry, keys_that_do_not_fit_are_refused_and_nothing_is_stored) {
  fits = [](const keyring &) { return fail(errc::invalid, "input_tokens_per_minute is too low"); };
  EXPECT_EQ(put(entry("a", "k"), "1"), "invalid: input_tokens_per_minute is too low");
  EXPECT_EQ(replace({entry("a", "k")}, "1"), "invalid: input_tokens_per_minute is too low");
  EXPECT_THAT(ids(), IsEmpty());
  EXPECT_THAT(published, IsEmpty());
  EXPECT_EQ(store.kept.version, "");
}

// A variant that puts the keys to work first answers before they are safe, and opens with what a full disk refused.
TEST_F(registry, a_change_is_stored_first_and_counts_only_then) {
  answer a;
  keys->put(entry("a", "k"), "1", "a test", a.fn());
  EXPECT_EQ(a.text, "none yet");
  EXPECT_FALSE(opens("k"));
  store.work();
  EXPECT_EQ(a.text, "ok");
  EXPECT_TRUE(opens("k"));
  store.broken = true;
  EXPECT_EQ(put(entry("b", "l"), "2"), "unavailable: not stored, so nothing has changed: disk full");
  EXPECT_FALSE(opens("l"));
  EXPECT_EQ(keys->now().version, "1");
}

TEST_F(registry, the_answer_waits_until_every_worker_has_the_keys_and_later_changes_do_not) {
  hold_workers = true;
  answer first, second;
  keys->put(entry("a", "k"), "1", "a test", first.fn());
  keys->put(entry("b", "l"), "2", "a test", second.fn());
  store.work();
  EXPECT_EQ(first.text + "," + second.text, "none yet,none yet");
  EXPECT_THAT(ids(), ElementsAre("a", "b"));
  for (const auto &everywhere : waiting) everywhere();
  EXPECT_EQ(first.text + "," + second.text, "ok,ok");
}

TEST_F(registry, changes_wait_for_each_other_up_to_a_bound) {
  std::deque<answer> all(key_registry::most_waiting + 2);
  for (size_t i = 0; i < all.size(); ++i) keys->put(entry("k" + std::to_string(i), std::to_string(i)), "1", "a test", all[i].fn());
  EXPECT_THAT(all.back().text, HasSubstr("unavailable: too many changes"));
  store.work();
  for (size_t i = 0; i + 1 < all.size(); ++i) EXPECT_EQ(all[i].text, "ok") << i;
  EXPECT_EQ(keys->now().entries.size(), key_registry::most_waiting + 1);
  EXPECT_EQ(store.kept.entries.size(), key_registry::most_waiting + 1);
}

// A policy may be written while the storage writes the keys.
TEST_F(registry, what_no_longer_fits_once_it_is_stored_is_taken_back) {
  ASSERT_EQ(put(entry("a", "k"), "1"), "ok");
  answer late;
  keys->put(entry("b", "l"), "2", "a test", late.fn());
  fits = [](const keyring &ring) { return ring.keys().size() > 1 ? fail(errc::invalid, "a policy came") : status(); };
  store.work();
  EXPECT_EQ(late.text, "invalid: a policy came");
  EXPECT_THAT(ids(), ElementsAre("a"));
  EXPECT_EQ(store.kept.version, "1");
  EXPECT_EQ(store.kept.entries.size(), 1u);
}

TEST_F(registry, what_was_stored_opens_again_and_what_cannot_be_read_stops_the_start) {
  ASSERT_EQ(put(entry("a", "k"), "7"), "ok");
  open();
  EXPECT_FALSE(opens("k"));
  ASSERT_TRUE(keys->restore().ok());
  EXPECT_TRUE(opens("k"));
  EXPECT_EQ(keys->now().version, "7");
  EXPECT_EQ(put(entry("a", "k"), "6"), "conflict: stale version");
  open(false, false);
  ASSERT_TRUE(keys->restore().ok());
  EXPECT_FALSE(opens("k")) << "without a store";
  EXPECT_EQ(put(entry("a", "k"), "1"), "ok");
  open();
  fits = [](const keyring &) { return fail(errc::invalid, "also an admin key"); };
  EXPECT_EQ(keys->restore().text(), "stored client keys: also an admin key");
  store.broken = true;
  EXPECT_FALSE(keys->restore().ok());
}

TEST(key_store, writes_what_differs_and_the_version_together) {
  const auto set = [](const std::string &version, std::vector<key_entry> all) {
    key_set out;
    out.version = version;
    for (key_entry &e : all) {
      const std::string id = e.key.id;
      out.entries[id] = std::make_shared<const key_entry>(std::move(e));
    }
    return out;
  };
  const auto shown = [](const key_set &before, const key_set &after) {
    std::vector<std::string> out;
    for (const fleet::stored_write &w : writes_between(before, after)) out.push_back((w.erase ? "-" : "+") + w.key);
    return out;
  };
  const key_set one = set("1", {entry("a", "k"), entry("b", "l")});
  EXPECT_THAT(shown({}, one), ElementsAre("+clientKey:a", "+clientKey:b", "+clientKeysVersion"));
  EXPECT_THAT(shown(one, set("1", {entry("a", "k"), entry("b", "l")})), IsEmpty()) << "equal, if not the same";
  EXPECT_THAT(shown(one, set("2", {entry("b", "m"), entry("c", "k")})), ElementsAre("-clientKey:a", "+clientKey:b", "+clientKey:c", "+clientKeysVersion"));
  EXPECT_THAT(shown(one, {}), ElementsAre("-clientKey:a", "-clientKey:b", "-clientKeysVersion"));
}

// Workers as the router has them: each its loop and its pointer, swapped on that loop; callers outlive the keyring that let them in.
TEST_F(registry, readers_go_on_while_keys_are_replaced_and_keep_the_rights_they_began_with) {
  struct reader {
    loop home;
    std::shared_ptr<const keyring> ring;
    std::vector<caller> held;
    uint64_t admitted = 0, refused = 0;
    std::thread thread;
  };
  std::atomic<bool> stop{false};
  open(false, false);
  ASSERT_EQ(put(entry("steady", "steady", "t0"), "0"), "ok");
  std::vector<std::unique_ptr<reader>> readers;
  for (int i = 0; i < 3; ++i) {
    readers.push_back(std::make_unique<reader>());
    readers.back()->ring = keys->keys();
  }
  std::function<void(reader *)> read = [&](reader *r) {
    for (int i = 0; i < 50; ++i) {
      const identified a = r->ring->identify(std::vector<http::field>{{"x-api-key", i % 2 == 0 ? "steady" : "changing"}}, 0);
      if (a.who == nullptr) {
        ++r->refused;
        continue;
      }
      ++r->admitted;
      EXPECT_EQ(a.who->tenant.front(), 't');
      if (r->held.size() < 1000) r->held.push_back(a.who);
    }
    if (!stop) r->home.post([&read, r] { read(r); });
    else r->home.stop();
  };
  for (auto &r : readers)
    r->thread = std::thread([&read, one = r.get()] {
      one->home.post([&read, one] { read(one); });
      one->home.run([](const char *what) { ADD_FAILURE() << what; });
    });
  for (int i = 1; i <= 300; ++i) {
    std::vector<key_entry> all{entry("steady", "steady", "t" + std::to_string(i))};
    if (i % 2 == 0) all.push_back(entry("changing", "changing", "t"));
    char version[16];
    std::snprintf(version, sizeof version, "%04d", i);
    ASSERT_EQ(replace(std::move(all), version), "ok");
    for (auto &r : readers) r->home.post([one = r.get(), ring = keys->keys()] { one->ring = ring; });
  }
  stop = true;
  for (auto &r : readers) {
    r->thread.join();
    EXPECT_GE(r->admitted, 25u);
    for (const caller &who : r->held) EXPECT_EQ(who->tenant.front(), 't');
    EXPECT_EQ(r->held.front()->id, "steady");
  }
}

}  // namespace
}  // namespace hive::tenancy
