#include "observe/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "base/clock.hpp"
#include "base/test_folder.hpp"
#include "observe/process.hpp"

namespace hive::observe {
namespace {

struct collected final : text_sink {
  std::string text;
  void write(std::string_view piece) override { text += piece; }
};

class fleet_like final : public collectable {
 public:
  void collect(exposition &out) override {
    const std::string who = label_text({"peer_id", "model"}, {"12D3KooW", "a \"b\"\\\nc"});
    out.family(metric_kind::gauge, "agent_success_ratio", "Share of\nsuccesses \\ requests.");
    out.series(who, 0.1);
    out.family(metric_kind::counter, "agent_requests_success_total", "Successes.");
    out.series(who, uint64_t{18446744073709551615u});
    out.family(metric_kind::histogram, "agent_engine_ttft_seconds", "Time to first token.");
    const double bounds[] = {0.5, 1};
    const uint64_t counts[] = {1, 3};
    out.histogram(who, bounds, counts, 2.5, 4);
  }
};

bool holds(const std::string &page, const std::string &line) { return ("\n" + page).find("\n" + line + "\n") != std::string::npos; }

TEST(metrics, series_of_a_forgotten_label_value_go_after_a_while_and_their_handles_are_good_until_then) {
  metrics all;
  const auto routed = all.counters("routed_total", "Routed.", {"region", "model"});
  const auto wait = all.histograms("wait_seconds", "Wait.", {1}, {"model"});
  const auto other = all.counters("other_total", "Without that label.", {"method"});
  routed.with({"a", "gone"}).add();
  routed.with({"b", "gone"}).add();
  routed.with({"a", "stays"}).add();
  wait.with({"gone"}).observe(1);
  other.with({"gone"}).add();
  const counter held = routed.with({"b", "gone"});
  all.forget("model", "gone");
  for (uint32_t i = 1; i < metrics::burial_calls; ++i) all.bury();
  held.add();
  EXPECT_EQ(routed.with({"a", "gone"}).value(), 1) << "asked for again, it lives on";
  all.bury();
  const std::string page = all.expose();
  EXPECT_TRUE(holds(page, "hivenet_router_routed_total{model=\"gone\",region=\"a\"} 1")) << page;
  EXPECT_EQ(page.find("region=\"b\""), std::string::npos) << page;
  EXPECT_EQ(page.find("hivenet_router_wait_seconds_"), std::string::npos) << page;
  EXPECT_TRUE(holds(page, "hivenet_router_routed_total{model=\"stays\",region=\"a\"} 1")) << page;
  EXPECT_TRUE(holds(page, "hivenet_router_other_total{method=\"gone\"} 1")) << page;
  EXPECT_EQ(routed.with({"b", "gone"}).value(), 0) << "a new life begins at nothing";
}

TEST(metrics, handles_count_into_the_page) {
  metrics all;
  const auto routed = all.counters("routing_requests_routed_total", "Requests routed.", {"model"});
  const auto depth = all.gauges("queue_depth", "Requests that wait.");
  const auto wait = all.histograms("queue_wait_seconds", "Wait.", exponential_bounds(0.01, 2, 13));
  const auto server = all.gauges("http_server_active_requests", "In flight.", {"method", "route"});
  routed.with({"m"}).add();
  routed.with({"m"}).add(2);
  depth.with({}).set(0.1);
  depth.with({}).add(-0.05);
  wait.with({}).observe(0.02);
  server.with({"GET", "/health"}).add(1);
  counter().add();
  const std::string page = all.expose();
  EXPECT_EQ(routed.with({"m"}).value(), 3);
  EXPECT_TRUE(holds(page, "hivenet_router_routing_requests_routed_total{model=\"m\"} 3")) << page;
  EXPECT_TRUE(holds(page, "hivenet_router_queue_depth 0.05")) << page;
  EXPECT_TRUE(holds(page, "hivenet_router_queue_wait_seconds_bucket{le=\"0.02\"} 1")) << page;
  EXPECT_TRUE(holds(page, "hivenet_router_queue_wait_seconds_bucket{le=\"0.01\"} 0")) << page;
  EXPECT_TRUE(holds(page, "hivenet_router_queue_wait_seconds_count 1")) << page;
  EXPECT_NE(page.find("\nhttp_server_active_requests{"), std::string::npos) << page;
}

TEST(metrics, a_full_family_drops_and_counts) {
  metrics all;
  const auto family = all.counters("x_total", "X.", {"who"}, 2);
  family.with({"a"}).add();
  family.with({"b"}).add();
  family.with({"c"}).add();
  family.with({"c"}).add();
  family.with({"a"}).add();
  const std::string page = all.expose();
  EXPECT_TRUE(holds(page, "hivenet_router_x_total{who=\"a\"} 2")) << page;
  EXPECT_EQ(page.find("who=\"c\""), std::string::npos);
  EXPECT_TRUE(holds(page, "hivenet_router_metrics_series_dropped_total{family=\"hivenet_router_x_total\"} 2")) << page;
}

TEST(metrics, the_page_says_how_many_series_it_has) {
  struct two final : collectable {
    void collect(exposition &out) override {
      out.family(metric_kind::gauge, "y", "h");
      out.series(label_text({"a"}, {"1"}), uint64_t{1});
      out.series(label_text({"a"}, {"2"}), 1.0);
      const double bounds[] = {1};
      const uint64_t counts[] = {0};
      out.family(metric_kind::histogram, "z", "h");
      out.histogram({}, bounds, counts, 0, 0);
    }
  } more;
  metrics m;
  const uint64_t before = 1;
  EXPECT_TRUE(holds(m.expose(), "hivenet_router_metrics_series " + std::to_string(before))) << m.expose();
  const counter_family x = m.counters("x_total", "h", {"a"});
  for (const char *value : {"1", "2", "3"}) x.with({value}).add();
  m.add(more);
  const std::string page = m.expose();
  const auto dropped = static_cast<uint64_t>(page.find("series_dropped_total{") != std::string::npos);
  EXPECT_TRUE(holds(page, "hivenet_router_metrics_series " + std::to_string(before + 3 + 3 + dropped))) << page;
  m.remove(more);
}

TEST(metrics, label_values_from_outside_are_checked) {
  EXPECT_EQ(clean_label("m\xc3\xa9"), "m\xc3\xa9");
  EXPECT_EQ(clean_label("m\xff"), "__invalid__");
  EXPECT_EQ(clean_label(std::string(257, 'x')), "__invalid__");
  metrics all;
  all.counters("x_total", "X.", {"who"}).with({"\xff"}).add();
  EXPECT_TRUE(holds(all.expose(), "hivenet_router_x_total{who=\"__invalid__\"} 1"));
}

TEST(metrics, many_threads_count_exactly) {
  metrics all;
  const auto family = all.counters("x_total", "X.", {"who"});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) family.with({i % 2 ? "a" : "b"}).add();
    });
  for (auto &thread : threads) thread.join();
  EXPECT_EQ(family.with({"a"}).value() + family.with({"b"}).value(), 40'000);
}

TEST(exposition, lines_are_escaped_and_exact) {
  collected out;
  {
    exposition page(out);
    fleet_like().collect(page);
    page.family(metric_kind::gauge, "odd", "Odd.");
    page.series("", std::nan(""));
    page.series("", -std::numeric_limits<double>::infinity());
    page.series("", 237.5);
    page.series("", 1e-7);
  }
  const std::string who = R"(peer_id="12D3KooW",model="a \"b\"\\\nc")";
  EXPECT_EQ(out.text,
            "# HELP hivenet_router_agent_success_ratio Share of\\nsuccesses \\\\ requests.\n"
            "# TYPE hivenet_router_agent_success_ratio gauge\n"
            "hivenet_router_agent_success_ratio{" + who + "} 0.1\n"
            "# HELP hivenet_router_agent_requests_success_total Successes.\n"
            "# TYPE hivenet_router_agent_requests_success_total counter\n"
            "hivenet_router_agent_requests_success_total{" + who + "} 18446744073709551615\n"
            "# HELP hivenet_router_agent_engine_ttft_seconds Time to first token.\n"
            "# TYPE hivenet_router_agent_engine_ttft_seconds histogram\n"
            "hivenet_router_agent_engine_ttft_seconds_bucket{" + who + ",le=\"0.5\"} 1\n"
            "hivenet_router_agent_engine_ttft_seconds_bucket{" + who + ",le=\"1\"} 3\n"
            "hivenet_router_agent_engine_ttft_seconds_bucket{" + who + ",le=\"+Inf\"} 4\n"
            "hivenet_router_agent_engine_ttft_seconds_sum{" + who + "} 2.5\n"
            "hivenet_router_agent_engine_ttft_seconds_count{" + who + "} 4\n"
            "# HELP hivenet_router_odd Odd.\n# TYPE hivenet_router_odd gauge\n"
            "hivenet_router_odd NaN\nhivenet_router_odd -Inf\nhivenet_router_odd 237.5\nhivenet_router_odd 1e-07\n");
}

TEST(exposition, a_family_comes_once_a_scrape) {
  metrics all;
  all.gauges("queue_depth", "Depth.").with({}).set(1);
  fleet_like one, two;
  struct again final : collectable {
    void collect(exposition &out) override {
      EXPECT_FALSE(out.family(metric_kind::gauge, "queue_depth", "Depth."));
      out.series("", 7.0);
    }
  } third;
  for (collectable *each : std::initializer_list<collectable *>{&one, &two, &third}) all.add(*each);
  const std::string page = all.expose();
  const std::string line = "# TYPE hivenet_router_agent_success_ratio gauge\n";
  EXPECT_NE(page.find(line), std::string::npos);
  EXPECT_EQ(page.find(line), page.rfind(line));
  EXPECT_EQ(page.find(" 7\n"), std::string::npos);
  for (collectable *each : std::initializer_list<collectable *>{&one, &two, &third}) all.remove(*each);
  EXPECT_EQ(all.expose().find(line), std::string::npos);
}

TEST(exposition, a_large_page_leaves_in_pieces) {
  struct counted final : text_sink {
    size_t pieces = 0, largest = 0, lines = 0;
    void write(std::string_view piece) override {
      ++pieces;
      lines += static_cast<size_t>(std::count(piece.begin(), piece.end(), '\n'));
      largest = std::max(largest, piece.size());
    }
  } out;
  exposition page(out);
  page.family(metric_kind::gauge, "agent_srtt_ms", "SRTT.");
  const std::string who = label_text({"peer_id", "model", "engine", "organization", "machine"},
                                     {std::string(52, 'x'), "meta-llama/Llama-3.1-8B-Instruct", "vllm", "org", "machine-0001"});
  const auto cpu_ns = [] {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<uint64_t>(t.tv_sec) * ns_per_s + static_cast<uint64_t>(t.tv_nsec);
  };
  const uint64_t begin = cpu_ns();
  for (int i = 0; i < 30'000; ++i) page.series(who, 123.456789 + i);
  page.flush();
  RecordProperty("ns_per_series", static_cast<int>((cpu_ns() - begin) / 30'000));
  EXPECT_EQ(out.lines, 30'002u);
  EXPECT_GT(out.pieces, 50u);
  EXPECT_LE(out.largest, 66'000u);
}

TEST(process, reads_its_own_proc) {
  metrics all;
  process_metrics process({"1.2", "abc", "g++ 12.2", "0.1"});
  all.add(process);
  const std::string page = all.expose();
  for (const char *name : {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_virtual_memory_bytes",
                           "process_virtual_memory_max_bytes", "process_open_fds", "process_max_fds", "process_start_time_seconds",
                           "process_network_receive_bytes_total", "process_network_transmit_bytes_total"})
    EXPECT_NE(page.find(std::string("\n") + name + " "), std::string::npos) << name << "\n" << page;
  EXPECT_TRUE(holds(page, R"(hivenet_router_build_info{version="1.2",commit="abc",compiler="g++ 12.2",plugin_abi="0.1"} 1)")) << page;
  all.remove(process);
}

TEST(process, takes_the_fields_of_stat_and_leaves_out_what_is_not_there) {
  const test_folder folder;
  const auto &proc = folder.path();
  std::ofstream(proc / "stat") << "7 (a) b) S 1 1 1 0 -1 0 0 0 0 0 250 50 0 0 20 0 4 0 1000 8192 3 0\n";
  std::ofstream(proc / "limits") << "Max open files            1024                 4096                 files\n";
  collected out;
  {
    exposition page(out);
    process_metrics({}, proc.string()).collect(page);
  }
  EXPECT_TRUE(holds(out.text, "process_cpu_seconds_total 3")) << out.text;
  EXPECT_TRUE(holds(out.text, "process_virtual_memory_bytes 8192")) << out.text;
  EXPECT_TRUE(holds(out.text, "process_max_fds 1024")) << out.text;
  EXPECT_EQ(out.text.find("process_open_fds"), std::string::npos);
}

TEST(exposition, promtool_accepts_the_whole_page) {
  ASSERT_STRNE(HIVE_PROMTOOL, "") << "promtool (Debian package prometheus) was not found when this was configured";
  metrics all;
  all.counters("routing_requests_routed_total", "Requests routed.", {"model"}).with({"a\"b\\c\n\xc3\xa9"}).add();
  all.gauges("queue_depth", "Requests that wait.", {"model"}).with({"m"}).set(1e-9);
  all.histograms("queue_wait_seconds", "Wait.", exponential_bounds(0.01, 2, 13), {"model"}).with({"m"}).observe(100);
  all.counters("quota_total", "Never used.", {"model"});
  fleet_like fleet;
  process_metrics process({"1.2", "abc", "g++", "0.1"});
  all.add(fleet);
  all.add(process);
  const test_folder folder;
  const std::string page = folder.at("page.txt"), answer = folder.at("promtool.txt");
  std::ofstream(page) << all.expose();
  const int code = std::system((std::string(HIVE_PROMTOOL) + " check metrics < " + page + " > " + answer + " 2>&1").c_str());
  std::stringstream said;
  said << std::ifstream(answer).rdbuf();
  EXPECT_EQ(code, 0) << said.str();
}

}  // namespace
}  // namespace hive::observe
