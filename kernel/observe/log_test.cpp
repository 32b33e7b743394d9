#include "observe/log.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hive::observe
