// How an answer that is generated token by token looks on one route: the shapes of vLLM for OpenAI's and Anthropic's APIs,
// as the recorded pages have them. Writes bytes, knows no connection. One answer an instance.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace hive::sim {

// What is known when the first byte of the answer is written.
struct generation_facts {
  std::string id;             // a number; each route has its own prefix
  std::string model;          // quoted
  std::string word;           // the text of one token
  uint64_t prompt_tokens = 0;
  uint32_t output_tokens = 0;
  std::optional<uint64_t> cached_tokens;  // told in usage; known when the first token is
  std::string tool;           // the function to call; empty = the answer is text
  bool include_usage = false; // stream_options of the request

  // What was generated, in all; of a tool call these are its arguments, a JSON object.
  std::string text() const;
};

class wire {
 public:
  explicit wire(generation_facts f) : facts_(std::move(f)) {}
  virtual ~wire() = default;
  void cached(uint64_t tokens) { facts_.cached_tokens = tokens; }
  // A stream: begin, one call a token, finish; or error instead of what is left.
  virtual void begin(std::string &out) = 0;
  virtual void token(uint32_t index, std::string &out) = 0;
  virtual void finish(std::string &out) = 0;
  virtual void error(std::string_view message, std::string &out) = 0;
  // Or the answer as a whole.
  virtual std::string whole() = 0;

 protected:
  // The text of one token, quoted; the first and the last of a tool call's arguments carry its braces.
  std::string piece(uint32_t index) const;

  generation_facts facts_;
};

std::unique_ptr<wire> chat_wire(generation_facts);
std::unique_ptr<wire> completion_wire(generation_facts);
std::unique_ptr<wire> messages_wire(generation_facts);
std::unique_ptr<wire> responses_wire(generation_facts);

// The function that an answer to this request calls: the first of its tools, unless the last message answers such a call.
std::string wanted_tool(const boost::json::object &request);

}  // namespace hive::sim
