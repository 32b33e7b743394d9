#include "config/edge_settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.hpp"
#include "config/load.hpp"

namespace hive::config {
namespace {

const environment with_secret = {{"HIVENET_ROUTER_JWT_SECRET", "0123456789abcdef0123456789abcdef"}};

auto load(const std::vector<std::string> &arguments) { return load_router(arguments, with_secret, "1.0"); }

TEST(edge_settings, nothing_given_is_plain_http_with_admin_on_the_same_port) {
  const auto got = load({});
  ASSERT_TRUE(got.run) << got.err;
  const edge_settings &e = got.settings.edge;
  EXPECT_FALSE(e.tls());
  EXPECT_FALSE(e.admin_apart);
  EXPECT_FALSE(e.metrics_tls);
  EXPECT_EQ(e.least_tls, "1.2");
  EXPECT_EQ(e.max_head.bytes, 32u * 1024);
  EXPECT_EQ(e.header_timeout.ns, 10 * ns_per_s);
  EXPECT_EQ(e.idle_timeout.ns, 120 * ns_per_s);
  EXPECT_EQ(e.connections_per_address, 0);
}

TEST(edge_settings, all_of_it_can_be_given) {
  const auto got = load({"--tls-cert-file", "c.pem", "--tls-key-file", "k.pem", "--tls-min-version", "1.3", "--admin-listen", "10.0.0.1:9443",
                         "--admin-tls-client-ca-file", "ca.pem", "--metrics-tls", "--http-body-min-rate", "1KiB"});
  ASSERT_TRUE(got.run) << got.err;
  const edge_settings &e = got.settings.edge;
  EXPECT_TRUE(e.tls());
  EXPECT_TRUE(e.admin_apart);
  EXPECT_EQ(e.admin.text(), "10.0.0.1:9443");
  EXPECT_EQ(e.least_tls, "1.3");
  EXPECT_EQ(e.body_rate.bytes, 1024u);
  for (const std::string &w : got.warnings) EXPECT_EQ(w.find("in the clear"), std::string::npos) << w;
}

// What would leave a listener less guarded than it was meant to be stops the start.
TEST(edge_settings, half_of_it_is_refused) {
  const std::vector<std::string> pair = {"--tls-cert-file", "c.pem", "--tls-key-file", "k.pem"};
  const struct {
    std::vector<std::string> arguments;
    bool with_pair;
    const char *said;
  } cases[] = {{{"--tls-cert-file", "c.pem"}, false, "a certificate and its key go together"},
               {{"--tls-key-file", "k.pem"}, false, "a certificate and its key go together"},
               {{"--metrics-tls"}, false, "TLS needs a certificate"},
               {{"--admin-tls-client-ca-file", "ca.pem"}, true, "client certificates need a listener of their own"},
               {{"--admin-tls-client-ca-file", "ca.pem", "--admin-listen", "127.0.0.1:9443"}, false, "client certificates need a listener of their own"},
               {{"--admin-listen", "127.0.0.1:8080"}, false, "is --http-port or --metrics-port, too"},
               {{"--tls-min-version", "1.1"}, true, "is not one of 1.2, 1.3"},
               {{"--http-header-timeout", "0s"}, false, "out of range"}};
  for (const auto &c : cases) {
    std::vector<std::string> arguments = c.arguments;
    if (c.with_pair) arguments.insert(arguments.end(), pair.begin(), pair.end());
    const auto got = load(arguments);
    EXPECT_FALSE(got.run) << c.said;
    EXPECT_NE(got.err.find(c.said), std::string::npos) << got.err;
  }
}

TEST(edge_settings, admin_keys_in_the_clear_are_warned_about) {
  const auto told = [](const std::vector<std::string> &arguments) {
    const auto got = load(arguments);
    return std::any_of(got.warnings.begin(), got.warnings.end(), [](const std::string &w) { return w.find("in the clear") != std::string::npos; });
  };
  EXPECT_TRUE(told({"--admin-listen", ":9443"}));
  EXPECT_TRUE(told({"--admin-listen", "10.0.0.1:9443"}));
  EXPECT_FALSE(told({"--admin-listen", "127.0.0.1:9443"}));
  EXPECT_FALSE(told({"--admin-listen", "[::1]:9443"}));
}

}  // namespace
}  // namespace hive::config
