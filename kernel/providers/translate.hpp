// Between OpenAI's Chat Completions and Anthropic's Messages: requests, whole answers, and streams event by event. A part of a
// request that the other API cannot express is an error if the answer would be another one without it (audio, n > 1, a server
// tool), and left out if it only tunes (seed, logit_bias, cache_control); docs/providers.md lists both. Pure but for the streams,
// which belong to one answer and one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace hive::providers {

// A chat request in the form of Messages, and the other way round; `model` replaces the client's.
result<std::string> messages_request(std::string_view chat, std::string_view model);
result<std::string> chat_request(std::string_view messages, std::string_view model);

// As Messages counts: input is what was in no cache.
struct token_counts {
  bool known = false;
  uint64_t input = 0, cache_read = 0, cache_write = 0, output = 0;
  uint64_t prompt() const { return input + cache_read + cache_write; }
};

struct answer_context {
  std::string_view model;        // the provider's, for an answer that names none
  std::string_view processed_by; // "provider:openai"
  uint64_t created_s = 0;        // Unix time, for a chat answer
  bool tools = false;            // the request offered some
  bool include_usage = false;    // of a chat stream: the client asked for its event
};

struct translated_answer {
  std::string text;
  token_counts usage;
};
// A whole answer of Messages in the form of Chat Completions, and the other way round.
result<translated_answer> chat_answer(std::string_view message, const answer_context &);
result<translated_answer> messages_answer(std::string_view completion, const answer_context &);

class stream_translator {
 public:
  virtual ~stream_translator() = default;
  // One event of the provider's; the client's events for it are appended. An error: the provider reported one (its words are in
  // the message), or broke its own protocol. Nothing may follow then.
  virtual status event(std::string_view data, std::string &out) = 0;
  bool over() const { return over_; }            // the answer is complete and so is what was appended
  const token_counts &usage() const { return usage_; }

 protected:
  bool over_ = false;
  token_counts usage_;
};
std::unique_ptr<stream_translator> stream_to_chat(const answer_context &);       // of Messages' events; context is copied
std::unique_ptr<stream_translator> stream_to_messages(const answer_context &);   // of chat chunks

// Stop reasons; what is not known ends an answer like any other (stop, end_turn).
std::string_view finish_reason_of(std::string_view stop_reason);
std::string_view stop_reason_of(std::string_view finish_reason);

}  // namespace hive::providers
