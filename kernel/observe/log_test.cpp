#include "observe/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/clock.hpp"

namespace hive::observe {
namespace {

std::string logged(const log_options &options, void (*write)()) {
  EXPECT_TRUE(start_logging(options).ok());
  testing::internal::CaptureStderr();
  write();
  stop_logging();
  return testing::internal::GetCapturedStderr();
}

TEST(log, a_bare_level_and_a_level_for_one_subsystem_both_count) {
  const auto write = [] {
    log("router").debug("r");
    log("metrics").debug("m");
    log("p2p").debug("l");
  };
  EXPECT_NE(logged({.level = "debug", .format = "nocolor"}, write).find("debug metrics m"), std::string::npos);
  const std::string some = logged({.level = "warn, router=debug,grpc=debug", .format = "nocolor"}, write);
  EXPECT_NE(some.find("debug router r"), std::string::npos);
  EXPECT_NE(some.find("debug link l"), std::string::npos);
  EXPECT_EQ(some.find("metrics"), std::string::npos);
  EXPECT_EQ(logged({.format = "nocolor"}, write), "");
}

TEST(log, names_that_do_not_exist_are_refused_with_those_that_do) {
  EXPECT_EQ(start_logging({.level = "loud"}).text(),
            "\"loud\" is not a log level; levels are debug, info, warn, error, dpanic, panic, fatal (and trace)");
  EXPECT_EQ(start_logging({.level = "info,rooter=debug"}).text(),
            "\"rooter\" is not a log subsystem; subsystems are router, agent, api, auth, link, hardware, metrics, policy, provider, "
            "storage, plugin, kernel (grpc and p2p mean link)");
  EXPECT_EQ(start_logging({.format = "xml"}).text(), "\"xml\" is not a log format; formats are color, nocolor, json");
}

TEST(log, a_json_line_holds_its_four_keys_and_cannot_be_forged) {
  const std::string line = logged({.format = "json", .peer_id = "12D3KooWx"}, [] { log("api").warn("a \"b\"\n{}\x1b[0m"); });
  EXPECT_TRUE(line.starts_with(R"({"level":"warn","ts":"20)")) << line;
  EXPECT_TRUE(line.ends_with("\"logger\":\"api\",\"msg\":\"a \\\"b\\\"\\n{}\\u001b[0m\",\"peer_id\":\"12D3KooWx\"}\n")) << line;
}

TEST(log, text_lines_are_one_line_each_and_coloured_on_demand) {
  const auto write = [] { log("agent").error("one\ntwo"); };
  const std::string plain = logged({.format = "nocolor", .peer_id = "12D3"}, write);
  EXPECT_TRUE(plain.ends_with(" error agent one\\ntwo peer_id=12D3\n")) << plain;
  EXPECT_NE(logged({.format = "color"}, write).find("\x1b["), std::string::npos);
}

// What stderr is while one of these lives.
class pipe_as_stderr {
 public:
  pipe_as_stderr() : before_(::dup(STDERR_FILENO)) {
    EXPECT_EQ(::pipe2(ends_, O_CLOEXEC), 0);
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    ::dup2(ends_[1], STDERR_FILENO);
  }
  ~pipe_as_stderr() {
    ::dup2(before_, STDERR_FILENO);
    for (const int fd : {before_, ends_[0], ends_[1]}) ::close(fd);
  }
  std::string read() {
    std::string out;
    char block[65536];
    for (ssize_t n; (n = ::read(ends_[0], block, sizeof block)) > 0;) out.append(block, static_cast<size_t>(n));
    return out;
  }

 private:
  int before_, ends_[2];
};

// Naive variant: a plain write, which stops the first thread that logs and with it all its requests.
TEST(log, a_pipe_that_nobody_reads_stops_nobody_and_what_was_lost_is_told) {
  ASSERT_TRUE(start_logging({.format = "nocolor"}).ok());
  const uint64_t lost_before = log_lines_lost();
  constexpr uint64_t lines = 3000;
  std::string first, then;
  uint64_t took = 0;
  {
    pipe_as_stderr pipe;
    const std::string text(200, 'x');
    const uint64_t began = now_ns();
    for (uint64_t i = 0; i < lines; ++i) log("router").info("{}", text);
    took = now_ns() - began;
    first = pipe.read();
    log("router").info("taken again");
    then = pipe.read();
  }
  EXPECT_LT(took, 10 * ns_per_s);
  const uint64_t lost = log_lines_lost() - lost_before;
  EXPECT_GT(lost, lines / 2);
  EXPECT_EQ(static_cast<uint64_t>(std::count(first.begin(), first.end(), '\n')), lines - lost) << "whole lines only";
  EXPECT_NE(then.find(" warn kernel " + std::to_string(lost) + " log line(s) were lost"), std::string::npos) << then;
  EXPECT_TRUE(then.ends_with(" info router taken again\n")) << then;
}

TEST(log, a_full_disk_stops_nobody_and_what_was_lost_is_told) {
  ASSERT_TRUE(start_logging({.format = "nocolor"}).ok());
  const uint64_t lost_before = log_lines_lost();
  pipe_as_stderr pipe;
  const int good = ::dup(STDERR_FILENO), full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  ::dup2(full, STDERR_FILENO);
  for (int i = 0; i < 3; ++i) log("router").info("nobody sees this");
  EXPECT_EQ(log_lines_lost() - lost_before, 3u);
  ::dup2(good, STDERR_FILENO);
  for (const int fd : {good, full}) ::close(fd);
  log("router").info("there is room again");
  const std::string then = pipe.read();
  EXPECT_NE(then.find(" warn kernel 3 log line(s) were lost"), std::string::npos) << then;
  EXPECT_TRUE(then.ends_with(" info router there is room again\n")) << then;
}

}  // namespace
}  // namespace hive::observe
