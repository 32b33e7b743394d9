#include "apps/access.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "base/test_folder.hpp"

namespace hive::apps {
namespace {

using tenancy::auth_mode;

const std::string client = "sk-client-key-of-the-access-tests", admin = "admin-key-of-the-access-tests-000001", other = "admin-key-of-the-access-tests-000002";
const std::string secret = "shared-secret-of-the-access-tests-0001", rotated = "shared-secret-of-the-access-tests-0002";

std::string listed(const std::string &key) {
  return "api:\n  mode: api-key\n  keys:\n    - {key_hash: " + sha256_hex(key) + ", metadata: {name: n, owner: o}}\n";
}

struct who_may_come_in : ::testing::Test {
  void write(const std::string &name, const std::string &text) { std::ofstream(folder.at(name), std::ios::trunc) << text; }
  status start(const std::string &auth, const std::string &admins) {
    write("auth.yaml", auth);
    write("admins", admins);
    settings.auth_config_file = folder.at("auth.yaml");
    settings.admin_keys_file = folder.at("admins");
    auto read = config::join_admin_keys({}, settings.admin_keys_file, {});
    settings.admin_keys = read.keys;
    doors = std::make_unique<access>(settings, control);
    doors->serve([this](const tenancy::keyring &) { return fits; },
                 [this](access::ring ring, std::function<void()> everywhere) {
                   published = std::move(ring);
                   everywhere();
                 },
                 [this](const std::vector<config::admin_key> &keys) { admin_ids = keys.size(); });
    return doors->start();
  }
  bool reload(const std::string &auth, const std::string &admins) {
    write("auth.yaml", auth);
    write("admins", admins);
    return doors->reload().value().ok();
  }

  test_folder folder;
  loop control;
  config::router_settings settings;
  std::unique_ptr<access> doors;
  status fits;
  access::ring published;
  size_t admin_ids = 0;
};

TEST_F(who_may_come_in, modes_change_at_runtime_only_as_far_as_is_safe) {
  const std::string none = "api: {mode: none}\n", keys = listed(client), dynamic = "api: {mode: dynamic}\n";
  const struct {
    std::string from, to;
    bool good;
    auth_mode then;
  } cases[] = {{keys, keys, true, auth_mode::api_key},      {keys, none, true, auth_mode::none},         {keys, "", false, auth_mode::api_key},
               {keys, "api: {}\n", false, auth_mode::api_key}, {keys, dynamic, false, auth_mode::api_key}, {none, keys, true, auth_mode::api_key},
               {"", keys, true, auth_mode::api_key},        {none, "", true, auth_mode::none},           {none, dynamic, false, auth_mode::none},
               {dynamic, keys, false, auth_mode::dynamic},  {dynamic, none, false, auth_mode::dynamic},  {dynamic, "", false, auth_mode::dynamic},
               {dynamic, dynamic, true, auth_mode::dynamic}};
  for (const auto &c : cases) {
    ASSERT_TRUE(start(c.from, admin + "\n").ok());
    EXPECT_EQ(reload(c.to, admin + "\n"), c.good) << c.from << "->\n" << c.to;
    EXPECT_EQ(doors->keys()->mode(), c.then) << c.from << "->\n" << c.to;
  }
}

TEST_F(who_may_come_in, both_files_count_or_neither) {
  ASSERT_TRUE(start(listed(client), admin + "\n").ok());
  const auto before = doors->keys();
  const std::pair<std::string, std::string> bad[] = {{"api: [", admin + "\n" + other + "\n"}, {listed("new"), "short\n"},
                                                     {listed("new"), admin + "\n" + admin + "\n"},
                                                     {listed(admin), admin + "\n"}};
  for (const auto &[auth, admins] : bad) {
    EXPECT_FALSE(reload(auth, admins)) << auth << admins;
    EXPECT_EQ(doors->keys(), before);
    EXPECT_EQ(admin_ids, 0u) << "nobody was told";
  }
  fits = fail(errc::invalid, "a policy needs more");
  EXPECT_FALSE(reload(listed("new"), admin + "\n" + other + "\n"));
  EXPECT_EQ(admin_ids, 0u);
  fits = {};
  EXPECT_TRUE(reload(listed("new"), admin + "\n" + other + "\n"));
  EXPECT_EQ(admin_ids, 2u);
  EXPECT_EQ(published, doors->keys());
  EXPECT_NE(published->find(sha256("new")), nullptr);
  EXPECT_EQ(published->find(sha256(client)), nullptr);
}

// A variant that drops them at once leaves the last reference, and the work of freeing, to a worker.
TEST_F(who_may_come_in, replaced_keys_live_until_the_sweep_after_their_last_request) {
  ASSERT_TRUE(start(listed(client), admin + "\n").ok());
  auto request = doors->keys();
  const std::weak_ptr<const tenancy::keyring> first = request;
  ASSERT_TRUE(reload(listed("second"), admin + "\n"));
  const std::weak_ptr<const tenancy::keyring> second = doors->keys();
  ASSERT_TRUE(reload(listed("third"), admin + "\n"));
  EXPECT_FALSE(second.expired());
  doors->sweep();
  EXPECT_TRUE(second.expired());
  EXPECT_FALSE(first.expired()) << "a request began with it";
  request.reset();
  EXPECT_FALSE(first.expired());
  doors->sweep();
  EXPECT_TRUE(first.expired());
}

TEST_F(who_may_come_in, a_mode_that_lives_on_the_admin_api_needs_an_admin_key) {
  settings.allow_insecure_admin = true;
  for (const char *auth : {"api: {mode: dynamic}\n", "admin: {mode: api-key}\n"}) {
    write("auth.yaml", auth);
    settings.auth_config_file = folder.at("auth.yaml");
    access without(settings, control);
    EXPECT_THAT(without.start().text(), ::testing::HasSubstr("there is no admin key")) << auth;
  }
  settings.auth_config_file.clear();
  settings.dynamic_keys = true;
  access by_variable(settings, control);
  EXPECT_THAT(by_variable.start().text(), ::testing::HasSubstr("HIVENET_ROUTER_AUTH_MODE: api.mode is dynamic, but there is no admin key"));
}

// A variant that goes on comparing with the secrets of the start lets the new one serve as a key, and keeps the old one from it.
TEST_F(who_may_come_in, keys_are_judged_beside_the_shared_secrets_of_the_moment) {
  settings.secrets = {secret};
  ASSERT_TRUE(start(listed(client), admin + "\n").ok());
  settings.secrets.clear();  // as the router wipes them
  EXPECT_FALSE(reload(listed(secret), admin + "\n"));
  EXPECT_FALSE(reload(listed(client), secret + "\n"));
  ASSERT_TRUE(doors->take_secrets({rotated, secret}).ok());
  for (const std::string &each : {rotated, secret}) {
    EXPECT_FALSE(reload(listed(each), admin + "\n"));
    EXPECT_FALSE(reload(listed(client), each + "\n"));
  }
  ASSERT_TRUE(doors->take_secrets({rotated}).ok());
  EXPECT_FALSE(reload(listed(rotated), admin + "\n"));
  EXPECT_FALSE(reload(listed(client), "ro:" + rotated + "\n"));
  EXPECT_TRUE(reload(listed(secret), admin + "\n")) << "it is a secret no more";
}

TEST_F(who_may_come_in, shared_secrets_that_are_a_key_are_refused_and_those_of_before_count_on) {
  settings.secrets = {secret};
  ASSERT_TRUE(start(listed(client), admin + "\n").ok());
  EXPECT_THAT(doors->take_secrets({rotated, admin}).text(), ::testing::HasSubstr("an admin key is also the agents' shared secret"));
  EXPECT_THAT(doors->take_secrets({client, rotated}).text(), ::testing::HasSubstr("a client key is also the agents' shared secret"));
  EXPECT_FALSE(reload(listed(secret), admin + "\n"));
  ASSERT_TRUE(reload(listed(rotated), other + "\n")) << "nothing of what was refused counts";
  EXPECT_FALSE(doors->take_secrets({rotated}).ok()) << "a key that came after the start";
  EXPECT_FALSE(doors->take_secrets({other}).ok());
  EXPECT_TRUE(doors->take_secrets({client, admin}).ok()) << "they are keys no more";
}

TEST_F(who_may_come_in, keys_of_the_admin_api_are_judged_beside_the_shared_secrets_of_the_moment) {
  settings.key_store = false;
  settings.secrets = {secret};
  ASSERT_TRUE(start("api: {mode: dynamic}\n", admin + "\n").ok());
  fleet::storage_thread unused{fleet::storage_ref{}};
  ASSERT_TRUE(doors->restore(unused).ok());
  const auto put = [&](const std::string &key) {
    tenancy::key_entry entry;
    entry.key.id = "one";
    entry.key.hash = sha256(key);
    status answer = fail(errc::unavailable, "no answer");
    doors->registry()->put(std::move(entry), "1", "a test", [&](const status &s) { answer = s; });
    return answer.ok();
  };
  EXPECT_FALSE(put(secret));
  ASSERT_TRUE(doors->take_secrets({rotated}).ok());
  EXPECT_FALSE(put(rotated));
  EXPECT_TRUE(put(secret));
  EXPECT_FALSE(doors->take_secrets({rotated, secret}).ok()) << "it is a client key now";
  EXPECT_FALSE(reload("api: {mode: dynamic}\n", rotated + "\n"));
}

TEST_F(who_may_come_in, what_is_a_secret_at_the_moment_is_known_by_its_text_and_for_as_long_as_somebody_asks) {
  settings.secrets = {secret};
  ASSERT_TRUE(start(listed(client), admin + "\n").ok());
  const auto before = doors->secret_test();
  ASSERT_TRUE(reload(listed("second"), other + "\n"));
  ASSERT_TRUE(doors->take_secrets({rotated}).ok());
  const auto now = doors->secret_test();
  doors->sweep();
  for (const std::string &text : {client, admin, secret}) {
    EXPECT_TRUE(before(text)) << text;
    EXPECT_FALSE(now(text)) << text;
  }
  for (const std::string &text : {std::string("second"), other, " " + other + "\n", rotated}) {
    EXPECT_FALSE(before(text)) << text;
    EXPECT_TRUE(now(text)) << text;
  }
  for (const std::string &text : {std::string(), sha256_hex(other), other.substr(1)}) EXPECT_FALSE(now(text)) << text;
}

TEST_F(who_may_come_in, without_files_there_is_nothing_to_reload) {
  access plain(settings, control);
  ASSERT_TRUE(plain.start().ok());
  EXPECT_EQ(plain.keys()->mode(), auth_mode::none);
  EXPECT_FALSE(plain.reload());
  EXPECT_FALSE(plain.secret_test()("anything"));
}

}  // namespace
}  // namespace hive::apps
