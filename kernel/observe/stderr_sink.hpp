// Where log lines go: stderr, which may be a file on a full disk, a pipe of a collector that hangs, a stopped terminal. None of
// them stops a thread that logs: what is not taken within a moment is dropped, counted, and told once lines are taken again.
#pragma once

#include <spdlog/common.h>
#include <spdlog/sinks/base_sink.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>

namespace hive::observe {

// Any thread; one line at a time.
class stderr_sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void set_color_mode(spdlog::color_mode);
  uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }  // lines, since the start

 private:
  void sink_it_(const spdlog::details::log_msg &) override;
  void flush_() override {}                // nothing is held back
  bool put(const spdlog::details::log_msg &);
  bool write(std::string_view);

  bool colored_ = false;
  bool torn_ = false;                      // the last line was taken in part
  uint64_t untold_ = 0;                    // lost lines that no line has told of
  std::atomic<uint64_t> lost_{0};
};

}  // namespace hive::observe
