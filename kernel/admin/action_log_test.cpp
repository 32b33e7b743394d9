#include "admin/action_log.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <fstream>
#include <vector>

#include "base/clock.hpp"
#include "base/digest.hpp"
#include "base/test_folder.hpp"

namespace hive::admin {
namespace {

namespace json = boost::json;
using gateway::admin_answer;
using gateway::admin_request;

constexpr const char *admin_key = "an-admin-key-that-nobody-may-ever-read-01";

TEST(action_log, a_target_is_what_the_template_leaves_open) {
  const struct { const char *route, *path, *target; } cases[] = {
      {"/admin/policy", "/admin/policy", ""},
      {"/admin/policy/models/*name", "/admin/policy/models/org%2Fa/b%20c", "org/a/b c"},
      {"/admin/agents/:peer_id/drain", "/admin/agents/12D3KooW/drain", "12D3KooW"},
      {"/admin/api-keys/:id", "/admin/api-keys/team-a", "team-a"},
      {"/admin/agents/:peer_id", "/elsewhere", ""},
  };
  for (const auto &c : cases) EXPECT_EQ(target_of(c.route, c.path), c.target) << c.path;
}

struct action_file : testing::Test {
  // What each request answers, and the lines that were written by the end.
  struct step {
    const char *method, *path, *route;
    int status;
    bool opened = true;
  };
  std::vector<json::object> lines_of(const std::vector<step> &steps) {
    observe::audit_options o;
    o.path = folder.at("audit.jsonl");
    {
      observe::audit_log log(o);
      EXPECT_TRUE(log.start().ok());
      action_log actions;
      actions.write_to(&log);
      for (const step &s : steps) {
        admin_request r;
        r.method = s.method;
        r.path = s.path;
        r.authorization = std::string("Bearer ") + admin_key;
        r.client = "192.0.2.7";
        r.request_id = "id";
        r.body = "a body that is nobody's business";
        if (s.opened) r.caller.key_id = sha256_hex(admin_key).substr(0, 12);
        int replies = 0;
        actions.watching(r, [&](admin_answer a) { replies += a.status == s.status ? 1 : 100; }, is_secret)({s.status, {}, {}, {}, s.route});
        EXPECT_EQ(replies, 1);
      }
    }
    std::ifstream in(o.path);
    std::vector<json::object> out;
    for (std::string line; std::getline(in, line);) {
      text += line;
      out.push_back(json::parse(line).as_object());
    }
    return out;
  }
  test_folder folder;
  std::string text;
  secret_test is_secret;
};

// Naive variants: a call in each handler (the next route is forgotten), the request's body or credential in the line.
TEST_F(action_file, every_change_has_a_line_and_no_question_has) {
  const auto lines = lines_of({{"GET", "/admin/policy", "/admin/policy", 200}, {"HEAD", "/admin/policy", "/admin/policy", 200},
                               {"POST", "/admin/explain", "/admin/explain", 200}, {"PUT", "/admin/nothing", "unmatched", 404},
                               {"PUT", "/admin/policy/models/a", "/admin/policy/models/*name", 200},
                               {"POST", "/admin/a-route-of-tomorrow/x", "/admin/a-route-of-tomorrow/:id", 409},
                               {"DELETE", "/admin/policy", "/admin/policy", 401, false}});
  ASSERT_EQ(lines.size(), 3u);
  const char *names[] = {"log_type", "level", "request_id", "admin_key_id", "method", "route", "target", "status_code", "latency_ms", "source_ip", "ts"};
  for (const json::object &l : lines) {
    ASSERT_EQ(l.size(), std::size(names));
    for (size_t i = 0; i < std::size(names); ++i) EXPECT_EQ((l.begin() + static_cast<std::ptrdiff_t>(i))->key(), names[i]);
    EXPECT_EQ(l.at("log_type").as_string(), "admin_audit");
    EXPECT_EQ(l.at("source_ip").as_string(), "192.0.2.7");
  }
  EXPECT_EQ(lines[0].at("target").as_string(), "a");
  EXPECT_EQ(lines[0].at("status_code").as_int64(), 200);
  EXPECT_EQ(lines[0].at("admin_key_id").as_string(), sha256_hex(admin_key).substr(0, 12));
  EXPECT_EQ(lines[1].at("level").as_string(), "error");
  EXPECT_EQ(lines[2].at("admin_key_id").as_string(), "") << "nobody was let in";
  for (const std::string &secret : {std::string(admin_key), sha256_hex(admin_key), std::string("business")})
    EXPECT_EQ(text.find(secret), std::string::npos) << secret;
}

TEST_F(action_file, a_key_that_was_typed_into_a_path_and_a_target_without_end_stay_out) {
  const std::string longest = "/admin/policy/models/" + std::string(5000, 'x');
  const auto lines = lines_of({{"DELETE", "/admin/api-keys/sk-hivenet-secret", "/admin/api-keys/:id", 404},
                               {"PUT", longest.c_str(), "/admin/policy/models/*name", 400},
                               {"DELETE", "/admin/api-keys/%20sk-hivenet-secret", "/admin/api-keys/:id", 400}});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[2].at("target").as_string(), "[secret]");
  EXPECT_EQ(lines[0].at("target").as_string(), "[secret]");
  EXPECT_EQ(lines[1].at("target").as_string().size(), observe::most_audit_text);
}

// Naive variants: only what begins like a key is one; only /admin/api-keys is looked at; only who was let in.
TEST_F(action_file, a_key_of_any_form_stays_out_of_every_target) {
  is_secret = [](std::string_view t) { return t == admin_key; };
  const std::string key = admin_key, policy = "/admin/policy/models/" + key, agent = "/admin/agents/" + key + "/revoked",
                    id = "/admin/api-keys/%61" + key.substr(1);
  const auto lines = lines_of({{"PUT", policy.c_str(), "/admin/policy/models/*name", 400},
                               {"PUT", agent.c_str(), "/admin/agents/:peer_id/revoked", 400},
                               {"DELETE", id.c_str(), "/admin/api-keys/:id", 401, false},
                               {"DELETE", "/admin/policy/models/a-name", "/admin/policy/models/*name", 200},
                               {"POST", "/admin/metrics/reset", "/admin/metrics/reset", 200}});
  ASSERT_EQ(lines.size(), 5u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(lines[i].at("target").as_string(), "[secret]") << i;
  EXPECT_EQ(lines[3].at("target").as_string(), "a-name");
  EXPECT_EQ(lines[4].at("target").as_string(), "");
  EXPECT_EQ(text.find(key.substr(1)), std::string::npos);
}

}  // namespace
}  // namespace hive::admin
