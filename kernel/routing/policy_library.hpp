// The policy documents of a running router: read at the start, read again on SIGHUP or when the admin API is asked to, and written
// through it. Whoever changes them, the same checks are made, the router gets all documents in one swap, and a change that is refused
// changes nothing.
//
// Control thread. Changes wait for each other: one that is being stored is over before the next begins.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "routing/policy_record.hpp"
#include "routing/policy_set.hpp"
#include "routing/router.hpp"

namespace hive::routing {

// Changes with every change of the document; for ETag and If-Match, quotes included.
std::string tag_of(const policy_document &);

// Refusals of a change, by code: invalid (the text, or what it asks for), conflict (a model is another document's), denied (the
// document is not the one that `if_match` names), unavailable (not now), internal (it was stored, and could not be put to work).
struct policy_write {
  std::string name;                 // empty = the global document
  std::string text;
  std::string if_match;             // as in the header; empty = whatever is there
  std::string who;                  // for the log
};

class policy_library {
 public:
  static constexpr size_t most_waiting = 64;

  struct surroundings {
    router &routing;
    policy_places places;
    policy_rules rules;
    std::function<status(const policy_set &)> check_all;                  // across documents and keys; may be empty
    policy_store *store = nullptr;                                        // null: what the API writes is gone at the end
    std::function<void(std::string_view trigger, bool good)> count = {};  // reloads; may be empty
    std::function<void()> changed = {};                                   // others rule now; may be empty
  };
  using done_fn = std::function<void(status)>;

  explicit policy_library(surroundings around) : around_(std::move(around)) {}

  // Waits for the storage. An error stops the start: the global document, or with --strict-policy any, cannot be had.
  status start();
  // Reads the files again: each document is taken or stays as it was, which the log tells and `done` (may be empty) the first reason of.
  // Counted under `trigger`, a static text.
  void reload(std::string_view trigger = "sighup", done_fn done = {});
  // `done` gets the answer, at once or when the storage has it.
  void put(policy_write, done_fn done);
  // The global document goes back to its file, or to the built-in one; a named one's models go back to the global document, also
  // when it was not there. Names of files stay deleted until the file is edited.
  void erase(policy_write, done_fn done);

  const policy_set &now() const { return now_; }

 private:
  status adopt(const policy_record &, const policy_files &, policy_set &into);
  status accept(policy_set next);
  status reread(std::string_view trigger);
  void forget(const std::vector<std::string> &names);
  void enter(std::function<void()> change, const done_fn &refused);
  void leave();
  void finish(const status &, const done_fn &);
  status judge_write(const policy_write &, policy_set &next);
  result<held_policy> global_of_file() const;
  void commit(const policy_write &, policy_set next, bool record, done_fn done);
  status check_tag(const policy_write &) const;
  void count(std::string_view trigger, bool good) const {
    if (around_.count) around_.count(trigger, good);
  }

  surroundings around_;
  policy_set now_;
  bool changing_ = false;
  std::deque<std::function<void()>> waiting_;
};

}  // namespace hive::routing
