#include "agent/content_watch.hpp"

#include <utility>

namespace hive::agent {

void content_watch::feed(std::string_view bytes, uint64_t now) {
  if (bytes.empty()) return;
  constexpr std::string_view ends = "\r\n";
  const bool begins_line = std::exchange(line_ended_, ends.find(bytes.back()) != std::string_view::npos);
  if (!scanner_) {
    if (now - last_ns_ < unwatched_ns()) return;
    if (!begins_line) {
      const size_t end = bytes.find_first_of(ends);
      if (end == std::string_view::npos) {
        last_ns_ = now;  // inside a line that is longer than any ping
        return;
      }
      bytes.remove_prefix(end);
    }
    scanner_.emplace();
  }
  scanner_->feed(bytes);
  if (!scanner_->facts().content && !scanner_->facts().unread) return;
  last_ns_ = now;
  scanner_.reset();
}

}  // namespace hive::agent
