#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/clock.hpp"
#include "base/test_folder.hpp"
#include "config/load.hpp"

namespace hive::config {
namespace {

const std::string secret = "0123456789abcdef0123456789abcdef";

class settings : public testing::Test {
 protected:
  test_folder folder_;
  std::string file_ = folder_.at("settings.yaml");
  environment env_ = {{"HIVENET_ROUTER_JWT_SECRET", secret}};

  std::vector<std::string> with_file(const std::string &text, std::vector<std::string> more = {}) {
    std::ofstream(file_) << text;
    more.insert(more.begin(), {"--config", file_});
    return more;
  }
  // Errors with the file's place cut to "F".
  std::string router_errors(const std::vector<std::string> &arguments) {
    const auto got = load_router(arguments, env_, "1.0");
    EXPECT_EQ(got.run, got.err.empty());
    std::string text = got.err;
    for (size_t at; (at = text.find(file_)) != std::string::npos;) text.replace(at, file_.size(), "F");
    return text;
  }
};

TEST_F(settings, nothing_given_binds_only_this_host_and_needs_no_secret) {
  env_.clear();
  const auto got = load_router({}, env_, "1.0");
  ASSERT_TRUE(got.run) << got.err;
  EXPECT_EQ(got.settings.http.text(), "127.0.0.1:8080");
  EXPECT_EQ(got.settings.metrics.text(), "127.0.0.1:2112");
  EXPECT_FALSE(got.settings.link_enabled);
  EXPECT_EQ(got.settings.queue_size, 100);
  EXPECT_EQ(got.settings.request_timeout.ns, 60 * ns_per_s);
  EXPECT_EQ(got.settings.retry_budget, 0.2);
  EXPECT_EQ(got.settings.admit_fraction, 0.9);
  EXPECT_GE(got.settings.workers, 1);
  EXPECT_EQ(got.warnings.size(), 2u);  // no secret, no admin key
}

TEST_F(settings, a_flag_wins_over_a_variable_over_the_file_over_the_built_in_value) {
  const auto file = with_file("queue_size: 1\nqueue_depth: 2\nmax_concurrent: 3\n");
  env_["HIVENET_ROUTER_QUEUE_SIZE"] = "11";
  env_["HIVENET_ROUTER_QUEUE_DEPTH"] = "12";
  auto arguments = file;
  arguments.push_back("-queue-size=21");
  const auto got = load_router(arguments, env_, "1.0");
  ASSERT_TRUE(got.run) << got.err;
  EXPECT_EQ(got.settings.queue_size, 21);
  EXPECT_EQ(got.settings.queue_depth, 12);
  EXPECT_EQ(got.settings.max_concurrent, 3);
  EXPECT_EQ(got.settings.max_tries_per_step, 3);
}

TEST_F(settings, printed_settings_are_accepted_as_a_file) {
  const auto router = load_router({"--print-config"}, env_, "1.0");
  ASSERT_EQ(router.err, "");
  EXPECT_EQ(load_router(with_file(router.out), env_, "1.0").err, "") << router.out;
  std::ofstream(file_) << secret;
  const auto printed = load_agent({"--print-config", "--backend-url", "http://127.0.0.1:8000", "--jwt-secret-file", file_}, {}, "1.0");
  ASSERT_EQ(printed.err, "");
  const std::string secret_file = file_ + ".secret";
  std::filesystem::rename(file_, secret_file);
  std::string text = printed.out;
  text.replace(text.find(file_), file_.size(), secret_file);
  EXPECT_EQ(load_agent(with_file(text), {}, "1.0").err, "") << text;
  std::filesystem::remove(secret_file);
}

TEST_F(settings, print_config_shows_every_origin_and_no_secret) {
  env_["HIVENET_ROUTER_ADMIN_API_KEYS"] = "an-admin-key-of-more-than-32-bytes!";
  const auto got = load_router(with_file("queue_size: 7\nplugins:\n  enable: [gate_srtt]\n  config:\n    storage: {redis: {password: p}}\n",
                                         {"--print-config", "--plugin-dir", "a", "--plugin-dir=b", "--http-port", ":0"}), env_, "1.0");
  EXPECT_FALSE(got.run);
  EXPECT_EQ(got.exit_code, 0) << got.err;
  const auto has = [&](const std::string &text) { EXPECT_NE(got.out.find(text), std::string::npos) << text << "\n" << got.out; };
  has("queue_size: 7                               # " + file_ + ":1\n");
  has("http_port: \":0\"                             # --http-port\n");
  has("admin_api_keys: \"********\"                  # HIVENET_ROUTER_ADMIN_API_KEYS\n");
  has("request_timeout: 1m");
  has("# built-in\n");
  has("plugins:\n  dirs: [a, b]");
  has("      redis: {\"password\":\"********\"}\n");
  const auto printed = yaml::parse(got.out, "printed");
  ASSERT_TRUE(printed.ok()) << printed.why().text();
  EXPECT_EQ(printed->find("plugins")->find("config")->find("storage")->find("redis")->find("password")->text(), "********");
  EXPECT_EQ(got.out.find(secret), std::string::npos);
  EXPECT_EQ(got.out.find("an-admin-key"), std::string::npos);
}

TEST_F(settings, bad_values_in_the_file_are_refused_with_line_and_what_would_be_right) {
  const std::pair<const char *, const char *> cases[] = {
      {"queue_sise: 3\n", "F:1: queue_sise: unknown key; did you mean \"queue_size\"?\n"},
      {"\nqueue_size: 0\n", "F:2: queue_size: 0 is out of range; it must be between 1 and 1000000\n"},
      {"queue_size: \"5\"\n", "F:1: queue_size: \"5\" is quoted, so it is text; write the number without quotes\n"},
      {"queue_size: 010\n", "F:1: queue_size: \"010\" has a leading zero; write it without\n"},
      {"queue_size: [1]\n", "F:1: queue_size: a list stands where a whole number is needed\n"},
      {"queue_depth: -5\n", "F:1: queue_depth: -5 is out of range; it must be between 0 and 1000000\n"},
      {"request_timeout: 60\n", "F:1: request_timeout: 60 has no unit; write 60s or 60ms\n"},
      {"request_timeout: -1s\n", "F:1: request_timeout: -1s is out of range; it must be between 100ms and 24h\n"},
      {"max_request_bytes: 10MB\n", "F:1: max_request_bytes: \"10MB\" is not a size; write bytes, or one like 64KiB or 10MiB\n"},
      {"slot_release: stream-end\n", "F:1: slot_release: \"stream-end\" is not one of stream_end, headers; did you mean \"stream_end\"?\n"},
      {"http_port: 8080\n", "F:1: http_port: \"8080\" is not an address; write one like :8080, 127.0.0.1:8080 or [::1]:8080\n"},
      {"allow_insecure_admin: yes\n", "F:1: allow_insecure_admin: \"yes\" is neither true nor false; write one of the two\n"},
      {"reset_disk_db: true\n", "F:1: reset_disk_db: unknown key\n"},
      {"embedded_agent: []\n", "F:1: embedded_agent: unknown key; did you mean \"embedded_agents\"?\n"},
      {"plugins: {dir: [x]}\n", "F:1: plugins.dir: unknown key; did you mean \"dirs\"?\n"},
      {"plugins: {enable: [gate_srtt.so]}\n",
       "F:1: plugins.enable[0]: \"gate_srtt.so\" is not the name of a library; write it without folder and .so, like gate_srtt\n"},
      {"plugins: {enable: [a, a]}\n", "F:1: plugins.enable[1]: \"a\" is listed twice; remove one\n"},
      {"plugins: {config: {gates: {}}}\n", "F:1: plugins.config.gates: unknown key; did you mean \"gate\"?\n"},
      {"plugins: {config: {gate: {srtt: 3}}}\n", "F:1: plugins.config.gate.srtt: \"3\" stands where a map (key: value) is needed\n"},
      {"plugins: {pins: {a: beef}}\n", "F:1: plugins.pins.a: not a SHA-256; write the 64 hexadecimal digits that sha256sum prints\n"},
      {"- a\n", "F:1: a list stands where a map (key: value) is needed\n"},
      {"a: [\n", "F:2: not valid YAML: end of sequence flow not found\n"}};
  for (const auto &[text, want] : cases) EXPECT_EQ(router_errors(with_file(text)), want) << text;
}

TEST_F(settings, null_in_the_file_is_as_if_the_key_were_absent) {
  const auto got = load_router(with_file("queue_size: null\nhttp_port:\npolicy_file: ~\nplugins:\n"), env_, "1.0");
  ASSERT_TRUE(got.run) << got.err;
  EXPECT_EQ(got.settings.queue_size, 100);
}

TEST_F(settings, bad_variables_are_refused_by_name_and_unknown_ones_warned_about) {
  const std::tuple<const char *, const char *, const char *> bad[] = {
      {"HIVENET_ROUTER_P2P_MAX_CONNS_PER_IP", "0", "0 is out of range; it must be between 1 and 1000000"},
      {"HIVENET_ROUTER_QUEUE_SIZE", "notanumber", "\"notanumber\" is not a whole number; write one like 12"},
      {"HIVENET_ROUTER_REQUEST_TIMEOUT", "xyz", "\"xyz\" is not a duration; write one like 500ms, 5s, 2m or 1h30m"},
      {"HIVENET_ROUTER_MAX_TRIES_PER_STEP", "-1", "-1 is out of range; it must be between 1 and 100"},
      {"HIVENET_ROUTER_SESSION_TTL", "-1h", "-1h is out of range; it must be between 0s and 720h"},
      {"HIVENET_ROUTER_ALLOW_INSECURE_ADMIN", "yes", "\"yes\" is neither true nor false; write one of the two"},
      {"HIVENET_ROUTER_AUTH_MODE", "api-key", "api-key needs keys; set --auth-config-file"},
      {"HIVENET_ROUTER_AUTH_MODE", "keys", "\"keys\" is no mode; use none, dynamic, or api-key with --auth-config-file"},
      {"HIVENET_ROUTER_TRUSTED_PROXIES", "10.0.0.0/8,nobody", "\"nobody\" is no IP address and no range; write one like 10.0.0.0/8 or fd00::/8"},
      {"HIVENET_ROUTER_AUDIT_QUEUE_BYTES", "1", "1 is out of range; it must be between 65536 and 1073741824"},
      {"HIVENET_ROUTER_AUDIT_OVERFLOW", "wait", "\"wait\" is not one of drop, block"},
      {"HIVENET_ROUTER_AUDIT_BLOCK_LIMIT", "2h", "2h is out of range; it must be between 1ms and 1h"},
      {"HIVENET_ROUTER_OPENAI_BASE_URL", "api.openai.com", "\"api.openai.com\" is not an http:// or https:// URL; write one like http://localhost:8888"},
      {"HIVENET_ROUTER_ADMIN_API_KEYS", "an-admin-key-with-a-\x7f", "the secret holds a byte that is not printable ASCII, or a space; write it as one word"},
      {"HIVENET_ROUTER_ANTHROPIC_API_KEY", "sk-1\r\nX-Other: 1", "the secret holds a byte that is not printable ASCII, or a space; write it as one word"}};
  for (const auto &[name, value, why] : bad) {
    env_[name] = value;
    EXPECT_EQ(router_errors({}), std::string(name) + ": " + why + "\n");
    env_.erase(name);
  }
  EXPECT_EQ(router_errors({"--audit-log-path", "off", "--audit-required"}),
            "audit-log-path: off, and --audit-required wants a file; leave one of the two out\n");
  env_["HIVENET_ROUTER_QUEUE_DEPTH"] = "0";
  env_["HIVENET_ROUTER_QUEUE_SISE"] = "1";
  env_["HIVENET_ROUTER_AGENT_CAPACITY"] = "1";
  const auto got = load_router({}, env_, "1.0");
  ASSERT_TRUE(got.run) << got.err;
  EXPECT_EQ(got.settings.queue_depth, 0);
  EXPECT_EQ(got.warnings.front(), "HIVENET_ROUTER_QUEUE_SISE is set but is no variable of hivenet-router; did you mean HIVENET_ROUTER_QUEUE_SIZE?");
}

TEST_F(settings, keys_of_providers_are_trimmed_hidden_and_told_when_they_would_travel_in_the_clear) {
  env_["HIVENET_ROUTER_OPENAI_API_KEY"] = "\xef\xbb\xbf sk-secret\n";
  const auto got = load_router({"--print-config", "--openai-base-url", "http://cloud.example/v1"}, env_, "1.0");
  EXPECT_EQ(got.settings.openai_key, "sk-secret");
  EXPECT_EQ(got.settings.openai_url, "http://cloud.example/v1");
  EXPECT_EQ(got.out.find("sk-secret"), std::string::npos);
  const auto clear = [&](const char *url) {
    const auto told = load_router({"--openai-base-url", url}, env_, "1.0").warnings;
    return std::any_of(told.begin(), told.end(), [](const std::string &w) { return w.find("in the clear") != std::string::npos; });
  };
  // Naive variant: what starts like loopback is this machine.
  for (const char *far : {"http://cloud.example", "http://localhost.evil.example", "http://127.0.0.1.evil.example/v1", "http://127.evil.example:9"})
    EXPECT_TRUE(clear(far)) << far;
  for (const char *near : {"http://127.0.0.1:9", "http://127.0.0.2", "http://localhost/v1", "http://[::1]:9", "https://cloud.example"})
    EXPECT_FALSE(clear(near)) << near;
}

TEST_F(settings, bad_flags_end_with_usage_and_exit_code_2) {
  const std::pair<std::vector<std::string>, const char *> cases[] = {
      {{"--queue-sise", "3"}, "--queue-sise: no such flag; did you mean --queue-size?\n"},
      {{"--queue-size"}, "--queue-size: needs a value\n"},
      {{"--queue-size=x", "--max-concurrent", "0"},
       "--queue-size: \"x\" is not a whole number; write one like 12\n--max-concurrent: 0 is out of range; it must be between 1 and 1000000\n"},
      {{"--retry-budget", "1.5"}, "--retry-budget: \"1.5\" is no fraction; write a number from 0 to 1, such as 0.2\n"},
      {{"--retry-budget", "nan"}, "--retry-budget: \"nan\" is no fraction; write a number from 0 to 1, such as 0.2\n"},
      {{"--admit-fraction", "0"}, "--admit-fraction: \"0\" is no fraction; write a number above 0 and up to 1, such as 0.9\n"},
      {{"--jwt-secret", "x"}, "--jwt-secret: no such flag; --help lists them\n"},
      {{"--reset-disk-db=maybe"}, "--reset-disk-db: \"maybe\" is neither true nor false; write one of the two\n"}};
  for (const auto &[arguments, want] : cases) {
    const auto got = load_router(arguments, env_, "1.0");
    EXPECT_EQ(got.exit_code, 2);
    EXPECT_EQ(got.err, std::string(want) + "usage: hivenet-router [flags]   (--help lists them)\n");
  }
}

TEST_F(settings, flags_stop_at_the_first_argument_that_is_none) {
  const auto got = load_router({"--reset-disk-db", "-queue-size", "5", "check", "--queue-size", "6"}, env_, "1.0");
  ASSERT_TRUE(got.run) << got.err;
  EXPECT_TRUE(got.settings.reset_disk_db);
  EXPECT_EQ(got.settings.queue_size, 5);
  EXPECT_EQ(got.rest, (std::vector<std::string>{"check", "--queue-size", "6"}));
}

TEST_F(settings, help_and_version_leave_with_zero_even_beside_mistakes_elsewhere) {
  const auto help = load_router({"--help"}, {}, "1.0");
  EXPECT_FALSE(help.run);
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.out.find("  --queue-size NUMBER   (HIVENET_ROUTER_QUEUE_SIZE)\n"), std::string::npos) << help.out;
  EXPECT_EQ(load_router({"--version"}, {}, "1.0").out, "hivenet-router 1.0\n");
  EXPECT_EQ(load_agent({"--print-version"}, {}, "1.0").out, "hivenet-agent 1.0\n");
  EXPECT_TRUE(load_router({"--check-config"}, env_, "1.0").judge);
}

TEST_F(settings, all_problems_are_reported_at_once) {
  env_["HIVENET_ROUTER_QUEUE_DEPTH"] = "many";
  EXPECT_EQ(router_errors(with_file("queue_size: 0\nzzz: 1\n", {"--heartbeat-interval", "20s", "--session-ttl=5m"})),
            "F:2: zzz: unknown key\n"
            "F:1: queue_size: 0 is out of range; it must be between 1 and 1000000\n"
            "HIVENET_ROUTER_QUEUE_DEPTH: \"many\" is not a whole number; write one like 12\n"
            "heartbeat-interval: 20s must be less than unhealthy-after (15s)\n"
            "session-ttl: 5m is too short; it must be more than 5m\n");
}

TEST_F(settings, the_link_takes_its_address_from_three_flags) {
  const std::pair<std::vector<std::string>, const char *> cases[] = {
      {{}, "127.0.0.1:50051"},
      {{"--p2p-listen-addr", "0.0.0.0"}, "0.0.0.0:50051"},
      {{"--p2p-listen-addr", "0.0.0.0", "--grpc-port", ":6000"}, "0.0.0.0:6000"},
      {{"--p2p-listen-addr", "0.0.0.0", "--grpc-port", "10.0.0.1:6000"}, "10.0.0.1:6000"},
      {{"--grpc-port", ":6000", "--link-listen", "[::1]:0"}, "[::1]:0"}};
  for (const auto &[arguments, want] : cases) {
    const auto got = load_router(arguments, env_, "1.0");
    ASSERT_TRUE(got.run) << got.err;
    EXPECT_TRUE(got.settings.link_enabled);
    EXPECT_EQ(got.settings.link_listen.text(), want);
  }
  EXPECT_EQ(load_router({"--p2p-announce-addr=/dns4/r.example/tcp/9000"}, env_, "1.0").settings.announce_host, "r.example");
  const auto old = load_router({"--p2p-port", "9000"}, env_, "1.0");
  ASSERT_TRUE(old.run) << old.err;
  EXPECT_EQ(old.warnings.front(), "--p2p-port is accepted but not used: agents use one port, --grpc-port or --link-listen");
  EXPECT_EQ(router_errors({"--workers=2", "--link-listen=:65535"}), "link-listen: worker i listens on port + i, and 65535 + 1 is over 65535\n");
  env_.clear();
  EXPECT_EQ(router_errors({"--grpc-port", ":6000"}),
            "--grpc-port: agents may connect only with a shared secret; set --jwt-secret-file or HIVENET_ROUTER_JWT_SECRET\n");
}

TEST_F(settings, without_an_address_only_a_router_with_keys_may_bind_every_interface) {
  const auto open = load_router({}, env_, "1.0");
  EXPECT_EQ(open.settings.http.text(), "127.0.0.1:8080");
  for (const bool by_flag : {false, true}) {
    std::vector<std::string> arguments;
    if (by_flag) arguments = {"--auth-config-file", "a.yaml"};
    else env_["HIVENET_ROUTER_AUTH_CONFIG"] = "a.yaml";
    const auto keys = load_router(arguments, env_, "1.0");
    ASSERT_TRUE(keys.run) << keys.err;
    EXPECT_EQ(keys.settings.auth_config_file, "a.yaml");
    EXPECT_EQ(keys.settings.http.text(), ":8080");  // unless the file turns out to hold none
    EXPECT_FALSE(keys.settings.http_given);
    EXPECT_EQ(keys.settings.metrics.text(), "127.0.0.1:2112");
    env_.erase("HIVENET_ROUTER_AUTH_CONFIG");
  }
  EXPECT_TRUE(load_router({"--http-port", ":8080"}, env_, "1.0").settings.http_given);
  env_["HIVENET_ROUTER_AUTH_MODE"] = "dynamic";
  const auto both = load_router({"--auth-config-file", "a.yaml"}, env_, "1.0");
  ASSERT_TRUE(both.run) << both.err;
  EXPECT_NE(std::find(both.warnings.begin(), both.warnings.end(), "HIVENET_ROUTER_AUTH_MODE is not used: a.yaml says the mode"), both.warnings.end());
  EXPECT_FALSE(both.settings.dynamic_keys);
  const auto dynamic = load_router({}, env_, "1.0");
  ASSERT_TRUE(dynamic.run) << dynamic.err;
  EXPECT_TRUE(dynamic.settings.dynamic_keys);
  EXPECT_EQ(dynamic.settings.http.text(), ":8080");
}

// Naive variant: whoever has an account on the machine adds a key of their own.
TEST_F(settings, files_that_decide_who_is_let_in_are_not_everybodys) {
  const auto judge = [&](const char *flag, unsigned mode, bool strict) {
    const std::string path = folder_.at("let-in");
    std::ofstream(path) << "an-admin-key-of-more-than-32-bytes!\n";
    std::filesystem::permissions(path, std::filesystem::perms(mode));
    std::vector<std::string> arguments = {flag, path};
    if (strict) arguments.push_back("--strict-auth");
    const auto got = load_router(arguments, env_, "1.0");
    std::string all = got.err;
    for (const std::string &w : got.warnings) all += w + "\n";
    return std::pair(got.run, all);
  };
  const std::string writes = "everybody on this machine can write it", reads = "everybody on this machine can read the admin keys";
  for (const char *flag : {"--auth-config-file", "--agents-file", "--revoked-agents-file", "--admin-api-keys-file"}) {
    const auto [warned, words] = judge(flag, 0642, false);
    EXPECT_TRUE(warned && words.find(writes) != std::string::npos) << flag << ": " << words;
    const auto [refused, why] = judge(flag, 0642, true);
    EXPECT_TRUE(!refused && why.find(writes) != std::string::npos) << flag << ": " << why;
    const auto [runs, nothing] = judge(flag, 0640, true);
    EXPECT_TRUE(runs && nothing.find("everybody on") == std::string::npos) << flag << ": " << nothing;
  }
  EXPECT_NE(judge("--admin-api-keys-file", 0644, true).second.find(reads), std::string::npos);
  EXPECT_EQ(judge("--auth-config-file", 0644, true).second.find("everybody on"), std::string::npos) << "it holds no secret";
}

TEST_F(settings, admin_keys_are_trimmed_checked_and_never_the_shared_secret) {
  env_["HIVENET_ROUTER_ADMIN_API_KEYS"] = "\xef\xbb\xbf an-admin-key-of-more-than-32-bytes! , ,another-admin-key-of-32-bytes-too";
  const auto got = load_router({}, env_, "1.0");
  ASSERT_TRUE(got.run) << got.err;
  EXPECT_EQ(got.settings.admin_keys.size(), 2u);
  EXPECT_TRUE(got.warnings.empty());
  env_["HIVENET_ROUTER_ADMIN_API_KEYS"] = "short";
  EXPECT_EQ(router_errors({}), "HIVENET_ROUTER_ADMIN_API_KEYS: the secret has 5 bytes; at least 16 are needed (for example: openssl rand -hex 32)\n");
  env_["HIVENET_ROUTER_ADMIN_API_KEYS"] = secret + "," + secret;
  EXPECT_EQ(router_errors({}),
            "admin API keys: one key is also the agents' shared secret; use another value\n"
            "admin API keys: one key is given twice; remove one\n"
            "admin API keys: one key is also the agents' shared secret; use another value\n");
}

TEST_F(settings, backends_come_from_flags_and_from_the_file) {
  env_.clear();
  const auto got = load_router(with_file("embedded_agents:\n"
                                         "  - url: http://10.0.0.5:8000/\n    name: edge\n    engine: vllm\n    model: [a, b]\n    capacity: 64\n    tags: []\n"
                                         "  - {url: \"http://[::1]:1/base\", engine: custom, machine: m7}\n",
                                         {"--backend", "http://127.0.0.1:8000", "--backend=llamacpp=http://h:9/x=y"}), env_, "1.0");
  ASSERT_TRUE(got.run) << got.err;
  EXPECT_EQ(got.warnings.size(), 1u) << "without a secret there are agents all the same";
  const auto &all = got.settings.embedded_agents;
  ASSERT_EQ(all.size(), 4u);
  const auto is = [&](size_t i, const char *name, const char *engine, const char *url, const char *machine) {
    EXPECT_EQ(all[i].name, name);
    EXPECT_EQ(all[i].settings.engine, engine);
    EXPECT_EQ(all[i].settings.backend_url, url);
    EXPECT_EQ(all[i].settings.machine, machine);
    EXPECT_EQ(all[i].settings.version, "1.0");
  };
  is(0, "http://127.0.0.1:8000", "auto", "http://127.0.0.1:8000", "127.0.0.1:8000");
  is(1, "http://h:9/x=y", "llamacpp", "http://h:9/x=y", "h:9");
  is(2, "edge", "vllm", "http://10.0.0.5:8000", "10.0.0.5:8000");
  is(3, "http://[::1]:1/base", "custom", "http://[::1]:1/base", "m7");
  EXPECT_EQ(all[2].settings.capacity, 64);
  EXPECT_EQ(all[2].settings.models, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(all[2].settings.tags.empty());
  EXPECT_EQ(all[0].settings.capacity, 10);
  EXPECT_EQ(all[0].settings.tags, std::vector<std::string>{"production"});
  env_["HIVENET_ROUTER_BACKEND"] = "http://a:1, vllm=http://b:2";
  EXPECT_EQ(load_router({}, env_, "1.0").settings.embedded_agents.size(), 2u);
}

TEST_F(settings, what_is_wrong_with_a_backend_is_said_with_its_place) {
  const std::pair<const char *, const char *> flags[] = {
      {"localhost:8000",
       "--backend: \"localhost:8000\" is not an http:// or https:// URL; write one like http://localhost:8888, or vllm=http://localhost:8888\nusage"},
      {"vllm=", "--backend: \"\" is not an http"},
      {"=http://a:1", "--backend: \"\" is not the id of a component"},
      {"VLLM=http://a:1", "--backend: \"VLLM\" is not the id of a component"},
      {"http://a:1/?q", "--backend: "}};
  for (const auto &[value, want] : flags)
    EXPECT_TRUE(router_errors({"--backend", value}).starts_with(want)) << value << ": " << router_errors({"--backend", value});
  const std::pair<const char *, const char *> files[] = {
      {"embedded_agents: 3\n", "F:1: embedded_agents: "},
      {"embedded_agents: [http://a:1]\n", "F:1: embedded_agents[0]: each agent is a map; write one like {url: http://localhost:8888}\n"},
      {"embedded_agents:\n  - engine: vllm\n", "F:2: embedded_agents[0]: url is missing; write one like url: http://localhost:8888\n"},
      {"embedded_agents:\n  - url: http://a:1\n    capacty: 3\n", "F:3: embedded_agents[0].capacty: "},
      {"embedded_agents:\n  - url: http://a:1\n    capacity: 0\n", "F:3: embedded_agents[0].capacity: 0 is out of range"},
      {"embedded_agents:\n  - url: http://a:1\n    router: b:2\n", "F:3: embedded_agents[0].router: "},
      {"embedded_agents:\n  - url: http://a:1\n  - url: http://a:1/\n",
       "F:3: embedded_agents[1]: \"http://a:1\" stands at F:2: embedded_agents[0] already; give one of the two a name, in embedded_agents\n"},
      {"embedded_agents:\n  - {url: \"http://a:1\", name: x}\n  - {url: \"http://b:1\", name: x}\n",
       "F:3: embedded_agents[1]: \"x\" stands at F:2: embedded_agents[0] already; use another name\n"}};
  for (const auto &[text, want] : files) EXPECT_TRUE(router_errors(with_file(text)).starts_with(want)) << text << router_errors(with_file(text));
  EXPECT_NE(router_errors(with_file(files[3].first)).find("did you mean \"capacity\"?"), std::string::npos);
}

TEST_F(settings, print_config_shows_embedded_agents_so_that_they_can_be_read_again) {
  const char *text = "embedded_agents:\n  - url: http://a:1\n    capacity: 3\n  - url: http://b:1\n    name: second\n";
  const auto got = load_router(with_file(text, {"--print-config"}), env_, "1.0");
  ASSERT_EQ(got.exit_code, 0) << got.err;
  const size_t block = got.out.find("embedded_agents:\n");
  ASSERT_NE(block, std::string::npos);
  const auto again = load_router(with_file(got.out.substr(block)), env_, "1.0");
  ASSERT_TRUE(again.run) << again.err << got.out;
  ASSERT_EQ(again.settings.embedded_agents.size(), 2u);
  EXPECT_EQ(again.settings.embedded_agents[0].settings.capacity, 3);
  EXPECT_EQ(again.settings.embedded_agents[1].name, "second");
}

TEST_F(settings, an_agent_reads_flags_twins_and_old_variables) {
  env_["HIVENET_ROUTER_AGENT_CAPACITY"] = "4";
  env_["HIVENET_ROUTER_GPU_MODEL"] = "H100";
  env_["HIVENET_ROUTER_CAPACITY"] = "9";
  const auto got = load_agent({"--router-grpc", "a:1", "--router", "b:2", "--tags", " x, y ", "--version", "v7", "--router-p2p", "z"}, env_, "1.0");
  ASSERT_TRUE(got.run) << got.err;
  EXPECT_EQ(got.settings.capacity, 4);
  EXPECT_EQ(got.settings.gpu_model, "H100");
  EXPECT_EQ(got.settings.routers, (std::vector<std::string>{"a:1", "b:2"}));
  EXPECT_EQ(got.settings.tags, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(got.settings.version, "v7");
  EXPECT_EQ(got.settings.secrets, std::vector<std::string>{secret});
  EXPECT_EQ(got.warnings, (std::vector<std::string>{"--router-grpc is an old name of --router; use that",
                                                    "--router-p2p is accepted but not used: routers tell their addresses"}));
  const auto plain = load_agent({"--tags", ""}, env_, "1.0");
  EXPECT_TRUE(plain.settings.tags.empty());
  EXPECT_EQ(plain.settings.region, "UE-France");
  EXPECT_EQ(plain.settings.version, "1.0");
  EXPECT_EQ(plain.settings.routers, std::vector<std::string>{"localhost:50051"});
}

TEST_F(settings, engines_of_older_command_lines_have_an_adapter) {
  for (const char *engine : {"custom", "sglang", "infinity", "ollama"}) {
    const auto got = load_agent({"--engine", engine, "--capability", "embedding"}, env_, "1.0");
    ASSERT_TRUE(got.run) << got.err;
    EXPECT_EQ(got.settings.engine, engine) << "routers are told the engine, not its adapter";
    EXPECT_EQ(engine_component(engine), "openai");
  }
  for (const char *engine : {"vllm", "llamacpp", "openai", "mine"}) EXPECT_EQ(engine_component(engine), engine);
}

TEST_F(settings, an_agent_refuses_what_cannot_work) {
  const std::pair<std::vector<std::string>, const char *> cases[] = {
      {{"--engine=ollama", "--capability=reranker"}, "capability: ollama has no reranking; use llm or embedding\n"},
      {{"--engine=infinity"}, "capability: infinity has no chat; use embedding or reranker\n"},
      {{"--router=a:1", "--router=a:1"}, "router: a:1 is given twice; remove one\n"},
      {{"--backend-url", "localhost:8888"},
       "--backend-url: \"localhost:8888\" is not an http:// or https:// URL; write one like http://localhost:8888\nusage"},
      {{"--capacity", "0"}, "--capacity: 0 is out of range; it must be between 1 and 1000000\nusage"},
      {{"--region", ""}, "--region: must not be empty; routers refuse an agent without it\nusage"},
      {{"--router", "a"}, "--router: \"a\" is not an address to connect to; write HOST:PORT, like router.example:50051\nusage"}};
  for (const auto &[arguments, want] : cases) {
    const auto got = load_agent(arguments, env_, "1.0");
    EXPECT_TRUE(got.err.starts_with(want)) << got.err;
  }
  EXPECT_EQ(load_agent({}, {}, "1.0").err, "jwt-secret-file: a shared secret is required; set --jwt-secret-file or HIVENET_ROUTER_JWT_SECRET\n");
  EXPECT_EQ(load_agent({}, {{"HIVENET_ROUTER_JWT_SECRET", "changeme"}}, "1.0").err,
            "HIVENET_ROUTER_JWT_SECRET: the secret has 8 bytes; at least 32 are needed (for example: openssl rand -hex 32)\n");
  EXPECT_EQ(load_agent({}, {{"HIVENET_ROUTER_AGENT_JWT_SECRET", "changeme"}}, "1.0").err,
            "HIVENET_ROUTER_AGENT_JWT_SECRET: the secret has 8 bytes; at least 32 are needed (for example: openssl rand -hex 32)\n");
  EXPECT_EQ(load_agent({}, {{"HIVENET_ROUTER_AGENT_JWT_SECRET_PREVIOUS", secret}}, "1.0").err,
            "HIVENET_ROUTER_AGENT_JWT_SECRET_PREVIOUS: a previous secret without one in use; set --jwt-secret-file or HIVENET_ROUTER_JWT_SECRET, too\n");
}

TEST_F(settings, text_fields_of_the_file_keep_their_text) {
  const auto got = load_agent(with_file("organization: NO\nmachine: 1.10\ngpu_model: null\nrouter: [a:1, b:2]\ntags: [null, 010]\n"), env_, "1.0");
  ASSERT_TRUE(got.run) << got.err;
  EXPECT_EQ(got.settings.organization, "NO");
  EXPECT_EQ(got.settings.machine, "1.10");
  EXPECT_EQ(got.settings.gpu_model, "null");
  EXPECT_EQ(got.settings.tags, (std::vector<std::string>{"null", "010"}));
}

TEST(workers, default_follows_the_cores) {
  const std::pair<unsigned, int64_t> cases[] = {{0, 1}, {1, 1}, {2, 1}, {4, 2}, {6, 3}, {8, 4}, {64, 4}};
  for (const auto &[cores, workers] : cases) EXPECT_EQ(default_workers(cores), workers) << cores;
}

TEST(reference, pages_in_the_tree_are_those_of_the_table) {
  const std::pair<const char *, std::string> pages[] = {{"/settings-router.md", router_reference()},
                                                     {"/settings-agent.md", agent_reference()},
                                                     {"/limits.md", limits_reference()}};
  for (const auto &[name, want] : pages) {
    std::ifstream in(std::string(HIVE_REFERENCE_DIR) + name);
    std::stringstream text;
    text << in.rdbuf();
    EXPECT_EQ(text.str(), want) << "run hive-settings-docs docs/reference";
  }
}

}  // namespace
}  // namespace hive::config
