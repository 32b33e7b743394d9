// Takes the framing off a message body, strictly: Content-Length, chunked, or to the end of the connection. Pure state, one
// thread at a time; feeds on whatever pieces the socket brought.
//
// The chunked path of Beast 1.81 throws on long trailers and bounds neither them nor extensions, hence ours.
// Accepted: RFC 9112 section 7.1 with CRLF line ends only, extensions skipped, no trailer field. Limits: a chunk's head 256 B,
// all extensions of a body 16 KiB, the payload as the caller says.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace hive::http {

class body_decoder {
 public:
  static constexpr size_t max_chunk_head = 256;
  static constexpr size_t max_extensions = 16 * 1024;

  enum class state { more, done, malformed, too_large };

  struct step {
    std::string_view payload;  // lies inside the bytes given to decode()
    size_t consumed = 0;       // framing and payload; the rest belongs to the next message
  };

  void start_length(uint64_t length);
  void start_chunked(uint64_t payload_limit);
  void start_until_close(uint64_t payload_limit);

  // Decodes in place: pieces of payload after the first are moved up against it, so that one read gives one piece.
  step decode(std::span<char> bytes);
  // The peer closed its side: done for an until-close body, malformed for one that is cut short.
  void end_of_input();

  state now() const { return state_; }
  bool done() const { return state_ == state::done; }
  bool failed() const { return state_ == state::malformed || state_ == state::too_large; }
  const char *what() const { return what_; }  // why it failed, for a person
  // Payload bytes still to come when the framing told so at the start (Content-Length).
  uint64_t remaining() const { return kind_ == kind::length ? left_ : 0; }
  bool is_length() const { return kind_ == kind::length; }
  bool is_until_close() const { return kind_ == kind::until_close; }

 private:
  enum class kind { length, chunked, until_close };
  enum class at { size_first, size, extension, size_lf, data, data_cr, data_lf, last_cr, last_lf };

  void fail(state s, const char *what);
  void on_chunk_byte(unsigned char c);

  state state_ = state::done;
  kind kind_ = kind::length;
  at at_ = at::size_first;
  uint64_t left_ = 0;        // of the body (length) or of the chunk (chunked)
  uint64_t budget_ = 0;      // payload bytes still allowed
  size_t head_bytes_ = 0;
  size_t extension_bytes_ = 0;
  const char *what_ = "";
};

}  // namespace hive::http
