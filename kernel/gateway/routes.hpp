// The client API as data: which paths exist, what each means, how it is labelled. The table is the security boundary:
// nothing that is not in it can reach an engine. Pure, any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/client_routes.hpp"
#include "gateway/error.hpp"

namespace hive::gateway {

enum class route_kind {
  health,        // GET /health
  ready,         // GET /health/ready
  models,        // GET /v1/models
  model_detail,  // GET /v1/models/{id...}
  inference,     // POST, goes to an engine
  admin,         // everything under /admin, answered on the control thread
};

// Where the numbers of tokens stand in an engine's answer.
enum class usage_source {
  none,    // nothing was generated or embedded: count_tokens
  told,    // in the body, and in every stream
  asked,   // in the body, and in a stream whose request says stream_options.include_usage
};

struct route {
  route_kind kind;
  std::string_view method;      // the one it answers to; GET answers HEAD too
  std::string_view path;        // exact, or a prefix when `rest` is set
  std::string_view label;       // what metrics, audit and logs call it
  std::string_view capability;  // what the model must do: llm, embedding, reranker, any
  dialect speaks = dialect::openai;
  bool rest = false;            // the remainder of the path is an argument
  bool buffered_head = false;   // native chat: the agent holds HEAD back until the answer is complete
  bool streams = false;         // a client may ask for a stream
  usage_source usage = usage_source::none;
  std::string_view engine_path = {};  // where the engine has it; empty = the same path
  bool forms = false;           // the body may be multipart/form-data
  bool admitted = false;        // it makes an engine generate: admission judges it
};

// Its texts are one prompt, where /v1/completions answers a list of prompts each by itself.
inline bool one_prompt(const route &r) { return r.path == "/v1/chat/completions" || r.speaks != dialect::openai; }

// The built-in routes.
std::span<const route> route_table();
// Rows for routes an operator has allowed; they borrow from `allowed`.
std::vector<route> extra_rows(std::span<const config::allowed_route> allowed);

struct route_match {
  const route *found = nullptr;
  std::string argument;         // of a `rest` route, percent-decoded once
  dialect speaks = dialect::openai;  // of the path, also when nothing was found
  // Filled when nothing was found.
  bool known_path = false;      // the path exists with another method: 405
  std::string_view allow;       // then: what it would take
  std::string suggestion;       // a path that was probably meant
};

// On /v1, repeated slashes and one trailing slash are forgiven; on /admin nothing is.
// Extra routes are asked after the built-in ones.
route_match find_route(std::string_view method, std::string_view path, std::span<const route> extra = {});

// "%41" -> "A", once; a malformed escape stays as it is.
std::string percent_decode(std::string_view text);

}  // namespace hive::gateway
