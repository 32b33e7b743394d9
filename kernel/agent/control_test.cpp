#include "agent/control.hpp"

#include <gtest/gtest.h>

#include "agent/test_engine.hpp"

namespace hive::agent {
namespace {

using test::paged_engine;

// The control half on a loop of its own in front of paged pages; what it says is noted on the loop as text.
class control_test : public testing::Test, private control_events {
 protected:
  control_test() {
    options_.health_interval_ns = 10 * ns_per_ms;
    options_.models_interval_ns = 30 * ns_per_ms;
    options_.engine_interval_ns = 10 * ns_per_ms;
    options_.signal_interval_ns = 10 * ns_per_ms;
    options_.failure_threshold = 3;
    engine_.set("/health", {200, ""});
    engine_.models(R"({"id":"a"})");
  }
  void TearDown() override {  // not the destructor: until it is gone, the loop calls this object's functions
    thread_.on_loop([&] { control_.reset(); });
  }
  void start() {
    thread_.on_loop([&] {
      control_events &heard_here = *this;
      control_ = std::make_unique<control>(thread_.get(), codec_.codec, http::origin{"127.0.0.1", engine_.port(), ""}, options_, slots_,
                                           heard_here);
      control_->start();
    });
  }
  bool said(const std::string &event, size_t times = 1) { return thread_.wait_for(event, times); }
  size_t times(const std::string &event) { return thread_.count(event); }
  std::map<std::string, double> signals() {
    std::map<std::string, double> out;
    thread_.on_loop([&] { out = signals_; });
    return out;
  }

  agent_options options_;
  slot_count slots_{4};
  paged_engine engine_;

 private:
  void on_engine(bool ready, const std::string &reason, const std::vector<std::string> &models) override {
    if (!ready) thread_.note("out");
    std::string text = ready ? "ready" : "down (" + reason + ")";
    for (const std::string &m : models) text += " " + m;
    thread_.note(text);
  }
  void on_signals(std::vector<sampled_signal> signals, std::string structured) override {
    signals_.clear();
    for (const sampled_signal &s : signals) signals_[s.name] = s.value;
    if (signals_.contains("running")) thread_.note("running " + std::to_string(static_cast<int>(signals_["running"])));
    if (signals_.contains("waiting_requests")) thread_.note("queued " + std::to_string(static_cast<int>(signals_["waiting_requests"])));
    if (structured.find("\"tokens_total\"") != std::string::npos) thread_.note("structured");
  }

  test::quick_codec codec_;
  std::map<std::string, double> signals_;
  http::test::loop_thread thread_;
  std::unique_ptr<control> control_;
};

TEST_F(control_test, an_engine_that_is_well_but_lists_no_models_is_not_ready_until_it_does) {
  engine_.models("");
  start();
  ASSERT_TRUE(engine_.wait_asked("/v1/models", 3));
  EXPECT_EQ(times("ready"), 0u);
  engine_.models(R"({"id":"a"},{"id":"b"})");
  EXPECT_TRUE(said("ready a b"));
}

TEST_F(control_test, a_list_that_becomes_empty_takes_a_ready_engine_out_until_it_is_filled) {
  start();
  ASSERT_TRUE(said("ready a"));
  engine_.models("");
  ASSERT_TRUE(said("down (the engine lists no models) a"));
  engine_.models(R"({"id":"a"})");
  EXPECT_TRUE(said("ready a", 2));
}

TEST_F(control_test, a_list_that_cannot_be_read_changes_nothing_about_an_engine_that_is_known) {
  start();
  ASSERT_TRUE(said("ready a"));
  for (const paged_engine::page &bad : {paged_engine::page{200, "<html>"}, {200, R"({"data":[{"id":"a"},)"}, {500, "oops"},
                                        {404, ""}, {200, "", paged_engine::way::cut}}) {
    engine_.set("/v1/models", bad);
    ASSERT_TRUE(engine_.wait_asked("/v1/models", 3));
  }
  engine_.models(R"({"id":"b"})");
  EXPECT_TRUE(said("ready b"));
  EXPECT_EQ(times("ready a"), 1u);
  EXPECT_EQ(times("out"), 0u);
}

TEST_F(control_test, an_unreadable_first_list_is_a_reason_and_no_end) {
  engine_.set("/v1/models", {500, "oops"});
  start();
  ASSERT_TRUE(engine_.wait_asked("/v1/models", 2));
  engine_.models(R"({"id":"a"})");
  EXPECT_TRUE(said("ready a"));
}

TEST_F(control_test, a_changed_list_is_told_while_the_engine_stays_ready) {
  start();
  ASSERT_TRUE(said("ready a"));
  engine_.models(R"({"id":"a"},{"id":"lora","parent":"a"})");
  EXPECT_TRUE(said("ready a lora"));
  engine_.models(R"({"id":"c"})");
  EXPECT_TRUE(said("ready c"));
}

TEST_F(control_test, only_so_many_bad_probes_in_a_row_take_an_engine_out_and_one_good_one_brings_it_back) {
  start();
  ASSERT_TRUE(said("ready a"));
  const size_t before = engine_.asked("/health");
  engine_.set("/health", {500, R"({"error":"cuda"})"});
  ASSERT_TRUE(said("down (cuda) a"));
  EXPECT_GE(engine_.asked("/health"), before + 3);
  engine_.set("/health", {200, ""});
  EXPECT_TRUE(said("ready a", 2));
}

TEST_F(control_test, a_sick_engine_that_still_lists_its_models_stays_out) {
  start();
  ASSERT_TRUE(said("ready a"));
  engine_.set("/health", {500, R"({"error":"cuda"})"});
  ASSERT_TRUE(said("down (cuda) a"));
  ASSERT_TRUE(engine_.wait_asked("/v1/models", 3));
  EXPECT_EQ(times("ready a"), 1u);
}

TEST_F(control_test, loading_is_told_at_once_and_is_no_failure) {
  options_.failure_threshold = 1000;
  start();
  ASSERT_TRUE(said("ready a"));
  engine_.set("/health", {503, R"({"error":{"message":"Loading model","type":"unavailable_error","code":503}})"});
  EXPECT_TRUE(said("down (starting: Loading model) a"));
}

TEST_F(control_test, without_a_health_page_the_list_of_models_decides) {
  engine_.set("/health", {404, "{}"});
  start();
  ASSERT_TRUE(said("ready a"));
  engine_.set("/v1/models", {500, "oops"});
  ASSERT_TRUE(said("down (the list of models could not be read: status 500) a"));
  engine_.set("/v1/models", {503, R"({"error":"loading model"})"});
  ASSERT_TRUE(said("down (starting: loading model) a"));
  engine_.models(R"({"id":"a"})");
  EXPECT_TRUE(said("ready a", 2));
}

TEST_F(control_test, an_engine_without_a_list_serves_what_the_operator_names) {
  options_.models = {"mine"};
  engine_.set("/v1/models", {404, ""});
  engine_.set("/health", {404, ""});
  start();
  EXPECT_TRUE(said("ready mine"));
}

TEST_F(control_test, named_models_are_served_whatever_else_is_listed) {
  options_.models = {"mine"};
  start();
  EXPECT_TRUE(said("ready mine"));
}

TEST_F(control_test, a_health_url_of_the_operator_is_asked_instead_and_a_redirect_is_not_healthy) {
  options_.health_url = "http://127.0.0.1:" + std::to_string(engine_.port()) + "/deep/check";
  engine_.set("/health", {500, "never asked"});
  engine_.set("/deep/check", {302, ""});
  start();
  ASSERT_TRUE(engine_.wait_asked("/deep/check", 2));
  EXPECT_EQ(times("ready a"), 0u);
  engine_.set("/deep/check", {200, "fine"});
  ASSERT_TRUE(said("ready a"));
  engine_.set("/deep/check", {302, ""});
  EXPECT_TRUE(said("down (the health URL answered 302) a"));
  EXPECT_EQ(engine_.asked("/health"), 0u);
}

// The naive agent takes a starved health page for a dead engine and makes a full fleet an empty one.
TEST_F(control_test, a_health_page_that_starves_while_requests_run_is_no_failure) {
  start();
  ASSERT_TRUE(said("ready a"));
  ASSERT_TRUE(slots_.take());
  engine_.set("/health", {200, "", paged_engine::way::hang});
  ASSERT_TRUE(engine_.wait_asked("/health", 5));
  EXPECT_EQ(times("out"), 0u);
  engine_.set("/health", {500, R"({"error":"cuda"})"});
  EXPECT_TRUE(said("down (cuda) a")) << "what it says counts, busy or not";
}

TEST_F(control_test, an_engine_that_is_silent_beyond_the_busy_limit_is_down_whatever_runs) {
  options_.busy_limit_ns = 200 * ns_per_ms;
  start();
  ASSERT_TRUE(said("ready a"));
  ASSERT_TRUE(slots_.take());
  engine_.set("/health", {200, "", paged_engine::way::hang});
  EXPECT_TRUE(said("out"));
  engine_.set("/health", {200, ""});
  EXPECT_TRUE(said("ready a", 2));
}

TEST_F(control_test, a_refused_probe_counts_although_requests_run) {
  start();
  ASSERT_TRUE(said("ready a"));
  ASSERT_TRUE(slots_.take());
  engine_.set("/health", {200, "", paged_engine::way::cut});
  EXPECT_TRUE(said("out"));
  engine_.set("/health", {200, ""});
  EXPECT_TRUE(said("ready a", 2));
}

TEST_F(control_test, metrics_and_load_pages_become_signals) {
  engine_.set("/metrics", {200, "m:running 2\nm:tokens 10\n"});
  engine_.set("/load", {200, R"({"data":[{"id":"a","stats":{"queue_absolute":3}},{"id":"b","stats":{"queue_absolute":2}}]})"});
  start();
  EXPECT_TRUE(said("running 2"));
  EXPECT_TRUE(said("structured"));
  EXPECT_TRUE(said("queued 5"));
}

TEST_F(control_test, a_page_that_breaks_leaves_no_old_values_behind) {
  engine_.set("/metrics", {200, "m:running 2\nm:waiting 1\n"});
  start();
  ASSERT_TRUE(said("running 2"));
  engine_.set("/metrics", {200, "<html>gone</html>"});
  ASSERT_TRUE(engine_.wait_asked("/metrics", 2));
  const uint64_t end = now_ns() + 8 * ns_per_s;
  while (signals().contains("running") && now_ns() < end) ASSERT_TRUE(engine_.wait_asked("/metrics", 5));
  const auto left = signals();
  EXPECT_FALSE(left.contains("running")) << "its adapter lets it live for 3 s";
  EXPECT_TRUE(left.contains("waiting")) << "the default is 10 s";
}

TEST_F(control_test, a_page_beyond_all_bounds_is_read_as_far_as_whole_lines_go) {
  constexpr size_t bound = 16 << 20;
  std::string page = "m:running 7\n";
  while (page.size() < bound - 200) page += "filler{path=\"/a/b/c\",method=\"GET\",status=\"200\"} 1234.5\n";
  page += "#" + std::string(bound - 14 - page.size() - 1, 'x') + "\n";
  ASSERT_LT(page.size(), bound);
  page += "m:waiting 123456789\n";  // the bound lies inside its number
  page += std::string(size_t{14} << 20, 'y');
  engine_.set("/metrics", {200, page});
  start();
  ASSERT_TRUE(said("running 7"));
  EXPECT_FALSE(signals().contains("waiting"));
}

}  // namespace
}  // namespace hive::agent
