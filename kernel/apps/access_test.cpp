#include "apps/access.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "base/test_folder.hpp"

namespace hive::apps {
namespace {

using tenancy::auth_mode;

const std::string client = "sk-client-key-of-the-access-tests", admin = "admin-key-of-the-access-tests-000001", other = "admin-key-of-the-access-tests-000002";

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
    return doors->reload().value();
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
  const std::pair<std::string, std::string> bad[] = {{"api: [", admin + "\n" + other + "\n"}, {listed("new"), "short\n"}, {listed("new"), admin + "\n" + admin + "\n"},
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

TEST_F(who_may_come_in, without_files_there_is_nothing_to_reload) {
  access plain(settings, control);
  ASSERT_TRUE(plain.start().ok());
  EXPECT_EQ(plain.keys()->mode(), auth_mode::none);
  EXPECT_EQ(plain.reload(), std::nullopt);
}

}  // namespace
}  // namespace hive::apps
