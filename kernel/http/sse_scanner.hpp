// Observes a copy of an answer's bytes: first content, usage, error, end. Never holds, delays or changes a byte of the answer;
// linear in the input however the reads are cut. One answer an instance, one thread at a time.
//
// SSE as the standard has it: LF, CR, CRLF also split over two reads, BOM, comments, `event:`, unknown fields, no final
// newline. Content is a content, reasoning, tool-call or refusal delta, or text; role-only events, empty choices, comments,
// pings and usage are not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "http/answer_facts.hpp"

namespace hive::http {

class sse_scanner {
 public:
  static constexpr size_t max_line = 1 << 20;

  void feed(std::string_view bytes);
  void end();  // the body is over: a last line without its newline counts
  const stream_facts &facts() const { return facts_; }

 private:
  void line(std::string_view text);
  void data(std::string_view json);
  bool like_last(std::string_view json);

  stream_facts facts_;
  std::string partial_;
  std::string shape_;          // the last event that told of one text only, without that text
  size_t text_at_ = 0;         // where in shape_ it stood
  bool skip_lf_ = false;       // a CR ended the last line; its LF may follow in the next read
  bool overlong_ = false;
  bool error_event_ = false;   // the current event is named "error"
  size_t bom_ = 0;             // bytes of a BOM seen at the very start; 3 = start is over
};

}  // namespace hive::http
