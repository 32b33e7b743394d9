#include "observe/stderr_sink.hpp"

#include <poll.h>
#include <spdlog/details/os.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <string>

namespace hive::observe {

namespace {

constexpr int patience_ms = 20;   // once; while lines are being lost nobody waits

std::string_view color_of(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace: return "\033[37m";
    case spdlog::level::debug: return "\033[36m";
    case spdlog::level::info: return "\033[32m";
    case spdlog::level::warn: return "\033[33m\033[1m";
    case spdlog::level::err: return "\033[31m\033[1m";
    default: return "\033[1m\033[41m";
  }
}

}  // namespace

void stderr_sink::set_color_mode(spdlog::color_mode mode) {
  const std::lock_guard lock(mutex_);
  colored_ = mode == spdlog::color_mode::always ||
             (mode == spdlog::color_mode::automatic && spdlog::details::os::in_terminal(stderr) && spdlog::details::os::is_color_terminal());
}

void stderr_sink::sink_it_(const spdlog::details::log_msg &message) {
  if (untold_ > 0) {
    const std::string text = std::to_string(untold_) + " log line(s) were lost: nothing took them";
    if (put({"kernel", spdlog::level::warn, text})) untold_ = 0;
  }
  if (untold_ == 0 && put(message)) return;
  ++untold_;
  lost_.fetch_add(1, std::memory_order_relaxed);
}

bool stderr_sink::put(const spdlog::details::log_msg &message) {
  spdlog::memory_buf_t line;
  if (torn_) line.push_back('\n');
  spdlog::memory_buf_t text;
  formatter_->format(message, text);
  const auto add = [&](size_t begin, size_t end) { line.append(text.data() + begin, text.data() + end); };
  const auto code = [&](std::string_view c) { line.append(c.data(), c.data() + c.size()); };
  if (colored_ && message.color_range_end > message.color_range_start) {
    add(0, message.color_range_start);
    code(color_of(message.level));
    add(message.color_range_start, message.color_range_end);
    code("\033[m");
    add(message.color_range_end, text.size());
  } else {
    add(0, text.size());
  }
  return write({line.data(), line.size()});
}

bool stderr_sink::write(std::string_view bytes) {
  struct stat about;
  const bool file = ::fstat(STDERR_FILENO, &about) == 0 && S_ISREG(about.st_mode);
  const size_t whole = bytes.size();
  while (!bytes.empty()) {
    size_t piece = bytes.size();
    if (!file) {
      pollfd ready{STDERR_FILENO, POLLOUT, 0};
      if (::poll(&ready, 1, untold_ == 0 ? patience_ms : 0) <= 0) break;
      piece = std::min<size_t>(piece, PIPE_BUF);   // a pipe that is writable takes so much at once
    }
    const ssize_t n = ::write(STDERR_FILENO, bytes.data(), piece);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  if (bytes.size() < whole) torn_ = !bytes.empty();
  return bytes.empty();
}

}  // namespace hive::observe
