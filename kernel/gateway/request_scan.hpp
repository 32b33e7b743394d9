// Reads out of a request's JSON what routing, admission and accounting need, and nothing else: the body goes to the engine as
// it came. One scanner per worker; its thread only.
//
// Rules (docs/http-api.md): keys count after unescaping and only at the top level; one that we read may occur
// once, and in no other spelling that some engine takes for it (folded_name.hpp). null is absent. Only `model` must have its
// type (a string of 1 to 256 bytes); every other odd value is left for the engine to judge and reads as absent here. A BOM and
// white space around the one object are accepted, anything else is not.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hive::gateway {

// A value's place in the body, quotes or braces included; for splicing.
struct byte_range {
  size_t offset = 0;
  size_t length = 0;
  bool present() const { return length != 0; }
};

struct request_scan {
  std::string model;               // unescaped
  bool stream = false;             // only a true that is a boolean
  bool include_usage = false;      // stream_options.include_usage, likewise
  bool include_usage_given = false;   // the keys are there, whatever their values
  bool stream_options_given = false;
  // Declared output limits. A JSON number, its fraction cut off, at most 2^40; a negative one, or one that is no number, is
  // absent: a budget can never grow by it.
  std::optional<uint64_t> max_tokens;
  std::optional<uint64_t> max_completion_tokens;
  std::optional<uint64_t> max_output_tokens;  // the name on the responses route
  std::optional<uint64_t> n_predict;          // llama.cpp's own, which it takes before the others
  // They, `n` or `best_of` hold what engines may read otherwise than we do, or an engine's own field may outdo them: no bound of what
  // it may generate is to be had from them.
  bool odd_limits = false;
  uint64_t choices = 1;            // the largest of `n`, `best_of` and `n_cmpl`, which may occur twice: an engine may read any
  uint64_t prompts = 1;            // of a list in `prompt` its texts and lists; one that holds a number is one prompt of token ids

  // For estimates (docs/admission.md): unescaped UTF-8 bytes of message, system and prompt text, nested blocks
  // included (prompt_keys.hpp), plus the raw length of `tools`, `functions` and tool inputs.
  uint64_t text_bytes = 0;
  uint64_t text_entries = 0;       // strings counted in text_bytes
  uint64_t text_quarters = 0;      // sum of floor(bytes / 4) over them
  uint64_t token_ids = 0;          // numbers that stand for text: one token each
  uint64_t messages = 0;
  uint64_t images = 0;

  byte_range model_at;
  byte_range stream_options_at;
  // What an engine's prompt is made of, in the order in which chat templates put it: tools, system, instructions, and the first
  // of messages, prompt and input in the body. Raw JSON, for prefix blocks.
  enum prompt_part { tools_part, system_part, instructions_part, main_part, prompt_parts };
  std::array<byte_range, prompt_parts> prompt_at;
  size_t object_at = 0;            // of the opening brace

  // `n` bytes were put into the body behind the one at `at`: what stands behind moves, what holds the place grows.
  void inserted(size_t at, size_t n) {
    const auto move = [at, n](byte_range &r) {
      if (!r.present()) return;
      if (r.offset > at) r.offset += n;
      else if (r.offset + r.length > at) r.length += n;
    };
    move(model_at);
    move(stream_options_at);
    for (byte_range &r : prompt_at) move(r);
    if (object_at > at) object_at += n;
  }

  // The most tokens that an engine may generate for it, over all choices and prompts; none where the request sets no limit. Not of
  // the responses route, where a limit is one of each turn. `one_prompt`: of a route whose texts are one prompt, not several.
  std::optional<uint64_t> most_output(bool one_prompt) const;

  // max_completion_tokens when it is not 0, else max_tokens; max_output_tokens or n_predict when that is more: a name that its route or
  // engine does not know limits nothing.
  std::optional<uint64_t> declared_output() const {
    auto most = max_completion_tokens.value_or(0) != 0 ? max_completion_tokens : max_tokens;
    for (const auto &other : {max_output_tokens, n_predict})
      if (other > most) most = other;
    return most;
  }

  // What it may generate by its own word, which admission and a key's day must have room for: declared_output for each choice of
  // each prompt, at most 2^40. `one_prompt` as above.
  std::optional<uint64_t> output_footprint(bool one_prompt) const;
};

struct scan_error {
  std::string message;             // for the caller, complete
  size_t offset = 0;               // in the body, where it was noticed
};

class request_scanner {
 public:
  static constexpr size_t max_model_bytes = 256;
  static constexpr int max_depth = 256;
  static constexpr size_t keep_parser_below = 1 << 20;  // a parser keeps about four times its largest body

  request_scanner();
  ~request_scanner();
  // `body` must have 64 readable bytes after its end (http::body_padding). Null when all is well.
  std::optional<scan_error> scan(std::string_view body, request_scan &out);

 private:
  struct parser;
  std::unique_ptr<parser> parser_;
};

}  // namespace hive::gateway
