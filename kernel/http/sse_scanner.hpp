// Observes a copy of an answer's bytes: first content, usage, error, end. Never holds, delays or changes a byte of the answer;
// linear in the input however the reads are cut. One answer an instance, one thread at a time.
//
// SSE as the standard has it: LF, CR, CRLF also split over two reads, BOM, comments, `event:`, unknown fields, no final
// newline. Content is a content, reasoning, tool-call or refusal delta, or text; role-only events, empty choices, comments,
// pings and usage are not (field-notes "Streams").
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace hive::http {

struct token_usage {
  bool present = false;
  uint64_t prompt = 0;      // cache reads and creations included
  uint64_t completion = 0;
};

struct stream_facts {
  bool content = false;     // something worth keeping was sent: no retry after it
  bool error = false;       // an error event inside the stream
  bool done = false;        // [DONE], or the dialect's own end event
  bool finished = false;    // a finish or stop reason was seen
  bool unread = false;      // a line exceeded max_line; what it held is not known
  token_usage usage;
  uint64_t delta_bytes = 0;   // of text deltas, raw, for estimates
  uint64_t delta_pieces = 0;
  uint64_t events = 0;        // data lines
  std::string error_text;     // the first error's data, at most 4 KiB
};

class sse_scanner {
 public:
  static constexpr size_t max_line = 1 << 20;

  sse_scanner();
  ~sse_scanner();
  void feed(std::string_view bytes);
  void end();  // the body is over: a last line without its newline counts
  const stream_facts &facts() const { return facts_; }

 private:
  void line(std::string_view text);
  void data(std::string_view json);

  struct parser;
  std::unique_ptr<parser> parser_;
  stream_facts facts_;
  std::string partial_;
  bool skip_lf_ = false;       // a CR ended the last line; its LF may follow in the next read
  bool overlong_ = false;
  bool error_event_ = false;   // the current event is named "error"
  size_t bom_ = 0;             // bytes of a BOM seen at the very start; 3 = start is over
};

// Usage out of a complete JSON answer (or none); never fails it.
token_usage usage_of_answer(std::string_view json);

}  // namespace hive::http
