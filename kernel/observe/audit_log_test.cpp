#include "observe/audit_log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "base/test_folder.hpp"
#include "base/test_wait.hpp"

namespace hive::observe {
namespace {

namespace json = boost::json;

uint64_t thread_cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<uint64_t>(t.tv_sec) * ns_per_s + static_cast<uint64_t>(t.tv_nsec);
}

audit_entry entry(std::string_view id = "id-1") {
  audit_entry e;
  e.request_id = id;
  e.model = "m";
  e.status_code = 200;
  e.ended = "completed";
  return e;
}

std::string line_of(const audit_entry &e, const zone &z = {}) {
  std::string out;
  append_audit_line(out, e, z);
  return out;
}

class audit : public testing::Test {
 protected:
  void SetUp() override {
    options_.path = at("audit.jsonl");
    options_.gather_ns = ns_per_ms;
    options_.retry_ns = ns_per_ms;
    options_.stop_ns = 50 * ns_per_ms;
  }
  std::string at(const std::string &name) const { return folder_.at(name); }

  static std::vector<std::string> ids(const std::string &file) {
    std::ifstream in(file);
    std::vector<std::string> out;
    for (std::string line; std::getline(in, line);) out.emplace_back(json::parse(line).at("request_id").as_string());
    return out;
  }
  void written(audit_log &log, uint64_t lines) {
    ASSERT_TRUE(within_limit([&] { return log.counters().written == lines; })) << log.counters().written << " of " << lines;
  }

  test_folder folder_;
  audit_options options_;
};

TEST_F(audit, a_line_has_the_fifteen_fields_in_order_and_no_null) {
  const char *names[] = {"log_type", "level", "trace_id", "request_id", "tenant_id", "key_id", "model", "status_code", "latency_ms", "input_tokens",
                         "output_tokens", "agent_id", "error_code", "source_ip", "ts"};
  const json::object whole = json::parse(line_of(entry())).as_object(), empty = json::parse(line_of({})).as_object();
  for (const json::object &line : {whole, empty}) {
    size_t i = 0;
    for (const char *name : names) {
      EXPECT_EQ((line.begin() + static_cast<std::ptrdiff_t>(i++))->key(), name);
      EXPECT_FALSE(line.at(name).is_null()) << name;
    }
    EXPECT_EQ(line.size(), 27u);
  }
}

TEST_F(audit, a_refusal_without_a_code_gets_that_of_its_status) {
  const std::pair<int, const char *> cases[] = {{200, ""}, {302, ""}, {400, "request_invalid"}, {401, "unauthorized"}, {403, "model_forbidden"},
                                                {404, "model_not_found"}, {413, "request_too_large"}, {429, "rate_limit_exceeded"}, {499, "client_gone"},
                                                {409, "backend_error"}, {500, "backend_error"}, {503, "no_agents_available"}, {504, "request_timeout"}};
  for (const auto &[status, code] : cases) {
    audit_entry e = entry();
    e.status_code = status;
    const json::value line = json::parse(line_of(e));
    EXPECT_EQ(line.at("error_code").as_string(), code) << status;
    EXPECT_EQ(line.at("level").as_string(), status < 400 ? "info" : "error");
  }
  audit_entry e = entry();
  e.status_code = 503;
  e.error_code = "queue_full";
  EXPECT_EQ(json::parse(line_of(e)).at("error_code").as_string(), "queue_full");
}

TEST_F(audit, what_a_caller_sends_cannot_break_or_flood_a_line) {
  for (const std::string &model : {std::string("a\"b\\c\n{}\r\t\x01\x7f"), std::string("\xff\xc3("), std::string(100'000, 'x'),
                                   std::string(300, '\x01'), std::string("\xe2\x82\xac") + std::string(252, 'y') + "\xe2\x82\xac", std::string(1, '\0')}) {
    audit_entry e = entry();
    e.model = model;
    const std::string line = line_of(e);
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
    EXPECT_LT(line.size(), 4000u);
    const json::value read = json::parse(line);
    const std::string_view shown = read.at("model").as_string();
    EXPECT_EQ(shown.ends_with("..."), model.size() > most_audit_text);
    EXPECT_LE(shown.size(), most_audit_text);
  }
}

TEST_F(audit, times_are_of_the_zone_with_its_offset) {
  const struct { const char *zone; uint64_t ms; const char *want; } cases[] = {
      {"Europe/Rome", 1'796'000'000'004, "2026-11-30T01:53:20.004+01:00"},
      {"Europe/Rome", 1'784'550'400'999, "2026-07-20T14:26:40.999+02:00"},
      {"Europe/Rome", 1'792'889'999'999, "2026-10-25T02:59:59.999+02:00"},   // the last moment of summer time
      {"Europe/Rome", 1'792'890'000'000, "2026-10-25T02:00:00.000+01:00"},
      {"America/St_Johns", 1'796'000'000'000, "2026-11-29T21:23:20.000-03:30"},
      {"UTC", 0, "1970-01-01T00:00:00.000+00:00"},
      {"Europe/Rome", 4'102'444'800'000, "2100-01-01T01:00:00.000+01:00"}};
  for (const auto &c : cases) {
    const auto z = zone::named(c.zone);
    ASSERT_TRUE(z.ok()) << c.zone;
    std::string text;
    z->append_time(text, c.ms);
    EXPECT_EQ(text, c.want);
  }
  EXPECT_FALSE(zone::named("Europe/Roma").ok());
}

TEST_F(audit, lines_of_many_threads_are_all_there_and_whole) {
  audit_log log(options_);
  ASSERT_TRUE(log.start().ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) log.write(entry(std::to_string(t) + "-" + std::to_string(i)));
    });
  for (std::thread &t : threads) t.join();
  log.stop();
  EXPECT_EQ(ids(options_.path).size(), 2000u);
  EXPECT_EQ(log.counters().written, 2000u);
  EXPECT_EQ(log.counters().dropped_full, 0u);
}

TEST_F(audit, a_file_is_made_for_its_owner_alone_and_one_that_is_there_keeps_its_mode) {
  const mode_t before = ::umask(0);
  options_.path = at("new/deep/audit.jsonl");
  struct stat about;
  {
    audit_log log(options_);
    ASSERT_TRUE(log.start().ok());
    ASSERT_EQ(::stat(options_.path.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0600u);
    ASSERT_EQ(::stat(at("new").c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0750u);
  }
  // Whoever rotates may have made it readable for a collector.
  ASSERT_EQ(::chmod(options_.path.c_str(), 0640), 0);
  audit_log log(options_);
  ASSERT_TRUE(log.start().ok());
  ASSERT_EQ(::stat(options_.path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0640u);
  ::umask(before);
}

// A terminal whose other end is closed answers EIO, as a broken disk does. Naive variant: an error that is not ENOSPC is dropped
// with its lines.
TEST_F(audit, lines_that_met_an_io_error_are_kept_and_written_to_the_next_file) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(master, 0);
  ASSERT_EQ(::grantpt(master) | ::unlockpt(master), 0);
  std::filesystem::create_symlink(::ptsname(master), options_.path);
  audit_log log(options_);
  ASSERT_TRUE(log.start().ok());
  ::close(master);
  for (int i = 0; i < 5; ++i) log.write(entry(std::to_string(i)));
  ASSERT_TRUE(within_limit([&] { return log.counters().write_errors > 2; }));
  EXPECT_EQ(log.counters().written, 0u);
  std::filesystem::remove(options_.path);
  log.reopen();
  written(log, 5);
  EXPECT_EQ(ids(options_.path), (std::vector<std::string>{"0", "1", "2", "3", "4"}));
  EXPECT_EQ(log.counters().dropped_full, 0u);
}

TEST_F(audit, after_rename_and_reopen_lines_go_to_the_new_file) {
  audit_log log(options_);
  ASSERT_TRUE(log.start().ok());
  log.write(entry("before"));
  written(log, 1);
  std::filesystem::rename(options_.path, at("old"));
  log.reopen();
  ASSERT_TRUE(within_limit([&] { return log.counters().opened == 2; }));
  log.write(entry("after"));
  written(log, 2);
  EXPECT_EQ(ids(at("old")), std::vector<std::string>{"before"});
  EXPECT_EQ(ids(options_.path), std::vector<std::string>{"after"});
}

TEST_F(audit, a_file_that_was_renamed_or_deleted_is_noticed_without_a_signal) {
  audit_log log(options_);
  ASSERT_TRUE(log.start().ok());
  log.write(entry("one"));
  written(log, 1);
  std::filesystem::rename(options_.path, at("old"));
  log.write(entry("two"));
  written(log, 2);
  std::filesystem::remove(options_.path);
  log.write(entry("three"));
  written(log, 3);
  std::filesystem::remove_all(folder_.path());
  log.write(entry("four"));
  written(log, 4);
  EXPECT_EQ(ids(options_.path), std::vector<std::string>{"four"});
  EXPECT_EQ(log.counters().opened, 4u);
}

// Naive variant: what the old file takes counts as written, although it has no name any more.
TEST_F(audit, lines_wait_while_a_file_that_was_deleted_cannot_be_made_again) {
  audit_log log(options_);
  ASSERT_TRUE(log.start().ok());
  log.write(entry("before"));
  written(log, 1);
  std::filesystem::remove(options_.path);
  std::filesystem::create_directory(options_.path);
  for (const char *id : {"0", "1", "2"}) log.write(entry(id));
  ASSERT_TRUE(within_limit([&] { return log.counters().write_errors > 2; }));
  EXPECT_EQ(log.counters().written, 1u);
  std::filesystem::remove(options_.path);
  log.reopen();
  written(log, 4);
  EXPECT_EQ(ids(options_.path), (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(log.counters().dropped_full, 0u);
}

TEST_F(audit, after_copytruncate_lines_start_at_the_front_again) {
  audit_log log(options_);
  ASSERT_TRUE(log.start().ok());
  log.write(entry("one"));
  written(log, 1);
  std::filesystem::copy_file(options_.path, at("copy"));
  std::filesystem::resize_file(options_.path, 0);
  log.write(entry("two"));
  written(log, 2);
  EXPECT_EQ(ids(options_.path), std::vector<std::string>{"two"});
}

TEST_F(audit, a_full_disk_stops_nobody_and_what_does_not_fit_is_counted) {
  std::filesystem::create_symlink("/dev/full", options_.path);
  options_.queue_bytes = 10 * line_of(entry()).size();
  audit_log log(options_);
  ASSERT_TRUE(log.start().ok());
  for (int i = 0; i < 100; ++i) log.write(entry());
  ASSERT_TRUE(within_limit([&] { return log.counters().write_errors > 2; }));
  EXPECT_EQ(log.counters().dropped_full, 90u);
  // Space again: what waited is written.
  std::filesystem::remove(options_.path);
  log.reopen();
  written(log, 10);
  EXPECT_EQ(ids(options_.path).size(), 10u);
}

TEST_F(audit, a_pipe_that_nobody_reads_stops_nobody_and_is_caught_up_with) {
  ASSERT_EQ(::mkfifo(options_.path.c_str(), 0600), 0);
  options_.queue_bytes = 400'000;
  audit_log log(options_);
  ASSERT_TRUE(log.start().ok());
  const std::string id(200, 'i');
  uint64_t sent = 0;
  const uint64_t slowest = [&] {
    uint64_t most = 0;
    for (; log.counters().dropped_full == 0; ++sent) {
      const uint64_t began = now_ns();
      log.write(entry(id));
      most = std::max(most, now_ns() - began);
    }
    return most;
  }();
  EXPECT_LT(slowest, 5 * ns_per_s);
  const int reader = ::open(options_.path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  std::string got;
  char block[65536];
  const auto lines = [&] {
    for (ssize_t n; (n = ::read(reader, block, sizeof block)) > 0;) got.append(block, static_cast<size_t>(n));
    return static_cast<uint64_t>(std::count(got.begin(), got.end(), '\n'));
  };
  EXPECT_TRUE(within_limit([&] { return lines() == sent - log.counters().dropped_full; })) << lines() << " of " << sent;
  std::istringstream all(got);
  for (std::string line; std::getline(all, line);) EXPECT_EQ(json::parse(line).at("request_id").as_string(), id);
  ::close(reader);
}

TEST_F(audit, stopping_is_bounded_when_nobody_reads) {
  ASSERT_EQ(::mkfifo(options_.path.c_str(), 0600), 0);
  audit_log log(options_);
  ASSERT_TRUE(log.start().ok());
  constexpr uint64_t lines = 1000;
  for (uint64_t i = 0; i < lines; ++i) log.write(entry());
  const uint64_t began = now_ns();
  log.stop();
  EXPECT_LT(now_ns() - began, 5 * ns_per_s);
  const audit_counters &c = log.counters();
  EXPECT_GT(c.dropped_stop, 0u);
  EXPECT_LE(c.written + c.dropped_stop, lines);
  EXPECT_GE(c.written + c.dropped_stop, lines - 1);   // one may be cut in the middle
  log.write(entry());
  EXPECT_EQ(c.dropped_full, 1u);
}

TEST_F(audit, a_file_that_cannot_be_opened_is_an_error_only_when_it_is_required) {
  options_.path = "/proc/no/such/audit.jsonl";
  options_.required = true;
  EXPECT_FALSE(audit_log(options_).start().ok());
  options_.required = false;
  testing::internal::CaptureStdout();
  {
    audit_log log(options_);
    ASSERT_TRUE(log.start().ok());
    log.write(entry("to-stdout"));
    written(log, 1);
  }
  EXPECT_NE(testing::internal::GetCapturedStdout().find("\"request_id\":\"to-stdout\""), std::string::npos);
}

// Not a limit: the number stands in the test's output.
TEST_F(audit, one_line_costs) {
  options_.queue_bytes = 64 << 20;
  options_.gather_ns = 20 * ns_per_ms;
  audit_log log(options_);
  ASSERT_TRUE(log.start().ok());
  audit_entry e = entry("0b5f6c1e-0000-4000-8000-000000000001");
  e.tenant_id = "acme";
  e.key_id = "a18dd697b3cd";
  e.model = "meta-llama/Llama-3.3-70B-Instruct";
  e.agent_id = "12D3KooWA4Xop1JaT3MHxwYMkCepYsv4iPVopMXwCz5iHYdBfeSB";
  e.source_ip = "192.0.2.7";
  e.started_unix_ms = unix_ms();
  constexpr int rounds = 20, lines = 1000;
  uint64_t spent = 0;
  for (int r = 0; r < rounds; ++r) {
    const uint64_t began = thread_cpu_ns();
    for (int i = 0; i < lines; ++i) log.write(e);
    spent += thread_cpu_ns() - began;
    written(log, static_cast<uint64_t>((r + 1) * lines));
  }
  const uint64_t each = spent / (rounds * lines);
  std::printf("audit line: %lu ns of CPU on the worker\n", static_cast<unsigned long>(each));
}

}  // namespace
}  // namespace hive::observe
