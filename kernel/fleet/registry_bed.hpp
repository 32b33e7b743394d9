// For tests of the registry: one of two workers, with hubs, an observer and a clock that only remember.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fleet/registry.hpp"

namespace hive::fleet {

struct hubs final : link_control {
  void probe(uint32_t worker, std::string, std::function<void(bool)> reply) override {
    probes.emplace_back(worker, std::move(reply));
  }
  void kick_link(link::link_id id, std::string code, std::string message, uint64_t, bool) override {
    kicked.emplace_back(id.peer, code);
    words = std::move(message);
  }
  std::vector<std::pair<uint32_t, std::function<void(bool)>>> probes;
  std::vector<std::pair<uint64_t, std::string>> kicked;
  std::string words;  // of the last
};

struct feed final : fleet_observer {
  void on_registered(const std::shared_ptr<agent> &a, bool again) override { events.push_back((again ? "again " : "new ") + a->peer_id()); }
  void on_unregistered(const std::shared_ptr<agent> &a, departure why) override {
    events.push_back(std::string(to_string(why)) + " " + a->peer_id());
  }
  void on_notice(std::string_view, std::string_view text) override { notices.emplace_back(text); }
  std::vector<std::string> events, notices;
};

struct samples final : sample_log {
  void srtt_sample(std::string_view peer, std::string_view request, double r, const latency_value &v, bool stream) override {
    lines.push_back(format_srtt_sample(peer, request, r, v, stream));
  }
  std::vector<std::string> lines;
};

inline std::string metadata(std::string_view models = "\"m\"", uint32_t capacity = 2) {
  return "{\"models\":[" + std::string(models) + "],\"capacity\":" + std::to_string(capacity) +
         R"(,"version":"1","engine":"vllm","region":"eu","organization":"org"})";
}

class registry_of_two_workers : public ::testing::Test {
 protected:
  explicit registry_of_two_workers(const registry_settings &settings = {.workers = 2}) : reg(settings, clock, links, nullptr, &seen, &log) {}

  link::auth_decision authenticate(uint64_t peer, uint64_t boot, uint32_t index = 0, std::string meta = metadata(), bool renewal = false) {
    link::auth_request r;
    r.peer_id = "A";
    r.boot_id = boot;
    r.link = {index, peer};
    r.link_index = index;
    r.address = "host" + std::to_string(boot);
    if (index == 0) r.metadata = std::move(meta);
    r.renewal = renewal;
    auto answer = std::make_shared<link::auth_decision>();
    answer->what = link::auth_decision::kind::wait_for_probe;
    reg.authenticate(std::move(r), [answer](link::auth_decision d) { *answer = std::move(d); });
    last = answer;
    return *answer;
  }
  void connect(uint64_t boot, uint32_t capacity = 2) {
    ASSERT_EQ(authenticate(boot * 10, boot, 0, metadata("\"m\"", capacity)).what, link::auth_decision::kind::welcome);
    ASSERT_EQ(authenticate(boot * 10 + 1, boot, 1).what, link::auth_decision::kind::welcome);
  }
  std::shared_ptr<agent> a() { return reg.find("A"); }

  manual_clock clock;
  hubs links;
  feed seen;
  samples log;
  registry reg;
  std::shared_ptr<link::auth_decision> last;
};

}  // namespace hive::fleet
