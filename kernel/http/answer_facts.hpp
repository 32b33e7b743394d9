// What can be read out of an engine's answer, whatever its dialect: OpenAI chat, completions, embeddings, rerank and responses,
// Anthropic messages. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hive::http {

// Of each count that an engine or an agent tells: no engine counts so far, and sums of counts stay sums.
inline constexpr uint64_t most_tokens = 1ull << 40;

struct token_usage {
  bool present = false;
  uint64_t prompt = 0;      // cache reads and creations included
  uint64_t completion = 0;
  std::optional<uint64_t> cached;  // of the prompt, found in the engine's cache; not every engine tells
};

struct stream_facts {
  bool content = false;     // something worth keeping was sent: no retry after it
  bool error = false;       // an error event inside the stream
  bool done = false;        // [DONE], or the dialect's own end event
  bool finished = false;    // a finish or stop reason was seen
  bool unread = false;      // a line exceeded max_line or is no field of an event stream; what it held is not known
  token_usage usage;
  uint64_t delta_bytes = 0;   // of text deltas, as UTF-8 without JSON's escapes, for estimates
  uint64_t delta_pieces = 0;
  uint64_t events = 0;        // data lines
  std::string error_text;     // the first error's data, at most 4 KiB
};

// Usage out of a complete JSON answer (or none); never fails it. Without `usage` a rerank answer's `meta.tokens` or
// `meta.billed_units` is taken (Cohere's form). Any thread; the parser behind it is the thread's own and kept.
token_usage usage_of_answer(std::string_view json);

}  // namespace hive::http
