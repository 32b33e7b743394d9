// Whether an engine's event stream still brings content: words, reasoning, tool calls. Comments, pings and empty deltas are none, so
// that an engine which only pings is as idle as a silent one. Loop thread only.
//
// Only a stream without content for a quarter of the limit is looked into, event by event, until there is some again: what flows costs
// nothing, and the end of an idle stream comes up to that quarter late.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "http/sse_scanner.hpp"

namespace hive::agent {

class content_watch {
 public:
  content_watch(uint64_t limit_ns, uint64_t now) : limit_ns_(limit_ns), last_ns_(now) {}
  // The next bytes of the body, cut anywhere.
  void feed(std::string_view bytes, uint64_t now);
  // Nobody has read the stream until now: that is no silence of the engine's.
  void forgive(uint64_t now) { last_ns_ = now; }
  uint64_t due_ns() const { return last_ns_ + limit_ns_ + unwatched_ns(); }  // idle, if there is no content by then

 private:
  uint64_t unwatched_ns() const { return limit_ns_ / 4; }

  const uint64_t limit_ns_;
  uint64_t last_ns_;                           // content came, or nothing was looked for
  bool line_ended_ = true;                     // the bytes so far end with a line
  std::optional<http::sse_scanner> scanner_;   // while content is looked for
};

}  // namespace hive::agent
