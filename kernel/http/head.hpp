// Reads the head of a message: Beast parses it, then the checks that Beast 1.81 lacks (request smuggling).
// Pure state, one thread at a time; an instance is reused for message after message and keeps its memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.hpp"

namespace hive::http {

// Where the head ends that `bytes` start with: one past its empty line, or 0 when it is not all there. `from` is how far an
// earlier call has looked (kept by the caller, start with 0).
size_t find_head_end(std::string_view bytes, size_t &from);

struct head_refusal {
  int status = 400;   // 400, 417, 431, 505
  std::string what;   // for a person
};

inline constexpr size_t max_fields = 256;

class request_head_parser {
 public:
  // `head` ends with its empty line and is copied. The result's views live until the next parse.
  std::optional<head_refusal> parse(std::string_view head);
  const request_head &head() const { return head_; }
  void release(size_t keep_bytes);  // gives memory beyond that back

 private:
  std::string bytes_;
  std::vector<field> fields_;
  request_head head_;
};

struct answer_head {
  int status = 0;
  int version = 11;
  bool keep_alive = true;
  bool chunked = false;
  std::optional<uint64_t> content_length;
  std::string_view date;      // the value of Date, empty without one
  std::vector<field> fields;  // hop-by-hop and framing fields taken out, and Date
};

class answer_head_parser {
 public:
  // As above; a failure's `status` means nothing here.
  std::optional<head_refusal> parse(std::string_view head);
  const answer_head &head() const { return head_; }

 private:
  std::string bytes_;
  answer_head head_;
};

}  // namespace hive::http
