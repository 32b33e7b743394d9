// Two readers of one event's JSON. The scan judges by structure alone and covers what engines send by the thousand; the
// parser reads everything and is asked when the scan will not answer. Both find the same facts wherever both answer
// (sse_scanner_test compares them with a third). Any thread; the parser is the thread's own.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "http/answer_facts.hpp"

namespace hive::http {

// The counts of one usage object, as written.
struct usage_report {
  enum field { prompt_tokens, input_tokens, cache_read, cache_creation, completion_tokens, output_tokens, total_tokens, fields };
  static constexpr std::array<std::string_view, fields> names = {
      "prompt_tokens", "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
      "completion_tokens", "output_tokens", "total_tokens"};
  // Objects inside it that tell, under cached_name, how much of the prompt was cached.
  static constexpr std::array<std::string_view, 2> details_names = {"prompt_tokens_details", "input_tokens_details"};
  static constexpr std::string_view cached_name = "cached_tokens";
  static constexpr uint64_t most = most_tokens;

  void set(field f, uint64_t n) {
    value[f] = n < most ? n : most;
    present |= 1u << f;
  }
  bool has(field f) const { return (present & (1u << f)) != 0; }

  void set_cached(uint64_t n) { cached = n < most ? n : most; }

  std::array<uint64_t, fields> value{};
  std::optional<uint64_t> cached;
  unsigned present = 0;
};

// Reports merge: a prompt figure replaces an earlier one, a completion figure never goes back. A bare
// total (rerank) is all prompt.
void merge_usage(const usage_report &, token_usage &);

enum class scan_result { read, read_with_meta, not_read };

// Where an event's one text stands, inside its quotes, when the event told of that text and of nothing else.
struct lone_text {
  size_t offset = 0;
  size_t size = 0;     // as written; 0 = the event is not of that kind
};

// `read`: the text is one JSON object and what it tells is in `facts`, its error and end events excepted: those, repeated
// keys, surrogate escapes, typed events with parts, deep nesting and text that may not be JSON are not read, and `facts` is
// unchanged. `read_with_meta`: a top-level `meta` was there, and was not looked into.
scan_result scan_event(std::string_view json, stream_facts &facts, lone_text &lone);

// Whether `text` between two quotes is a JSON string without escapes. False, too, for some that are.
bool plain_text(std::string_view text);

// Reads anything; what is not a JSON object tells nothing. True: the event reports an error.
bool parse_event(std::string_view json, stream_facts &facts);

}  // namespace hive::http
