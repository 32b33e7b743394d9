// Reads one HTTP/1.1 answer after another off a connection, as cheaply as a load generator must: it looks at the status
// line, Content-Length and Transfer-Encoding, and counts SSE events by their blank lines without a look inside.
//
// One thread. It trusts the server to the degree that a benchmark may: not for production.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hive::bench {

class answer_reader {
 public:
  enum class state { head, sized_body, chunk_size, chunk_data, chunk_end, trailer, done, broken };

  // Starts over for the next answer; bytes after the last one are a protocol error of the server.
  void reset();
  // Takes bytes as they arrive, any split. Once done() or broken(), more bytes make it broken.
  void take(std::string_view bytes);

  bool done() const { return state_ == state::done; }
  bool broken() const { return state_ == state::broken; }
  int status() const { return status_; }
  bool keep_alive() const { return keep_alive_; }
  uint64_t body_bytes() const { return body_bytes_; }
  // Blank lines in the body so far, that is SSE events, `data: [DONE]` included.
  uint64_t events() const { return events_; }
  // Time stamps in the body (": @NS", engine_sim --stamp), in order, once watched; the caller empties the row.
  void watch_stamps() { stamped_ = true; }
  std::vector<uint64_t> &stamps() { return stamps_; }
  // True when the body's last bytes are the event `data: [DONE]`.
  bool ended_with_done() const;

 private:
  size_t take_head(std::string_view);
  size_t take_line(std::string_view);
  void parse_head();
  void body(std::string_view);
  void find_stamps(std::string_view);

  state state_ = state::head;
  int status_ = 0;
  bool keep_alive_ = true;
  bool line_empty_ = false;    // nothing but CR since the body's last LF
  uint64_t left_ = 0;          // bytes of the sized body or of the chunk
  uint64_t body_bytes_ = 0;
  uint64_t events_ = 0;
  bool stamped_ = false, in_stamp_ = false;
  uint64_t stamp_ = 0;
  std::vector<uint64_t> stamps_;
  std::string held_;           // an unfinished head or line
  char tail_[16] = {};         // the body's last bytes
  size_t tail_size_ = 0;
};

}  // namespace hive::bench
