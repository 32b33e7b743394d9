// Finds out which engine stands behind a URL, by the pages that the loaded engine adapters name. Lives on the control loop;
// everything here belongs to that thread. It asks until it knows and is of no use after.
//
// The rule, in this order; each page that any adapter names is fetched once a round:
//   1. The adapter that finds the most of its own series on its metrics page, at least one.
//   2. The adapter whose id is the engine's own name in the models page (`owned_by`) or in the Server header; letters and
//      digits count, case does not (llama.cpp says "llama.cpp", its adapter is `llamacpp`).
//   3. The general adapter (`openai`), once the models page lists a model, or a model was named and the server answers its
//      health or models page with 200.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/engine.hpp"
#include "agent/page_fetch.hpp"
#include "base/loop.hpp"
#include "http/client.hpp"

namespace hive::agent {

inline constexpr std::string_view general_engine = "openai";

struct engine_candidate {
  std::string id;
  const engine_codec *codec;
};

// One round's answers, by method and path.
class page_answers {
 public:
  page_answer &at(const hive_page &);
  const page_answer *find(const hive_page &) const;

 private:
  std::vector<std::pair<std::string, page_answer>> all_;
};

struct detection {
  std::string engine;   // id of the adapter; empty = not known yet
  std::string reason;   // why that one, or why none: words for the log
};
// The rule. `model_named`: the operator said which model it serves.
detection judge_engine(const std::vector<engine_candidate> &, const page_answers &, bool model_named);

class engine_detector {
 public:
  // `found` is called once, on the loop, never from inside start. `trouble` gets the reason each time it changes.
  engine_detector(loop &, http::origin, std::vector<engine_candidate>, bool model_named, std::function<void(const detection &)> found,
                  std::function<void(const std::string &)> trouble);
  ~engine_detector();
  void start();

 private:
  void ask();
  void answered();

  loop &loop_;
  const std::vector<engine_candidate> candidates_;
  const bool model_named_;
  std::function<void(const detection &)> found_;
  std::function<void(const std::string &)> trouble_;
  http::client client_;
  callback_timer timer_;
  page_answers answers_;
  std::vector<std::unique_ptr<page_fetch>> fetches_;
  size_t open_ = 0;
  std::string told_;
};

}  // namespace hive::agent
