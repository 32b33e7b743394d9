// Who may be an agent of this router: not those that are revoked, by the operator through the admin API (kept in the storage) or
// in a file; and where there is a file of agents only those that it lists, with the models that it lists for them.
//
// Control thread. `done` is called there too, never before the call returns.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/loop.hpp"
#include "base/status.hpp"
#include "fleet/storage_thread.hpp"
#include "link/identity.hpp"

namespace hive::fleet {

// When an agent that is refused may ask again: what refuses it may have been taken back.
inline constexpr uint64_t refused_retry_ms = 10'000;

struct revocation {
  std::string peer_id, reason, by;   // reason and by are the operator's words and address
  uint64_t since_unix_ms = 0;        // 0 = of the file
  bool of_file = false;
};

// One record an agent, under agentRevoked:<peer_id>.
std::string encode(const revocation &);
std::optional<revocation> decode_revocation(std::string_view key, std::string_view value);  // empty = not such a record

// Why an agent may not register; words for it.
struct roster_refusal {
  std::string code;                  // revoked, unlisted
  std::string message;
};

// Lines of `PEER_ID [MODEL...]`; blank ones and those that begin with # are skipped. The error names the line.
using agent_lines = std::map<std::string, std::vector<std::string>, std::less<>>;
result<agent_lines> parse_agent_lines(std::string_view text, const std::string &where, bool models);

class agent_roster {
 public:
  static constexpr size_t most_revoked = 4096;
  using done_fn = std::function<void(status)>;
  struct files {
    std::string revoked, agents;     // empty = none
  };

  // All of it outlives the roster; the storage thread is stopped before the loop is destroyed.
  agent_roster(storage_thread &storage, loop &control, const clock_source &clock, files places)
      : storage_(storage), control_(control), clock_(clock), files_(std::move(places)) {}

  static status check(const files &);  // whether they can be read
  status start();                    // waits for the storage; without what it knows nobody may be let in
  status reload();                   // the files again; on an error nothing changes
  void exempt(std::set<std::string> own) { own_ = std::move(own); }        // agents inside this process: configured, not admitted
  void on_change(std::function<void()> told) { told_ = std::move(told); }  // who is revoked has changed

  std::optional<roster_refusal> judge(std::string_view peer_id, const std::vector<std::string> &models) const;
  bool lists_models() const { return listed_.has_value(); }                // else `models` is not looked at
  std::vector<revocation> revoked() const;                                 // by peer id
  std::vector<link::key32> denied_keys() const;

  // In force when the call returns; `done` says whether it is stored. Refused (invalid, exhausted, conflict for an agent inside
  // this process) without any effect.
  status revoke(const std::string &peer_id, const std::string &reason, const std::string &by, done_fn done);
  // Refused: not_found, or conflict for one that stands in the file.
  status restore(const std::string &peer_id, done_fn done);

 private:
  static status read_files(const files &, agent_lines &revoked, std::optional<agent_lines> &agents);
  void store(stored_write, done_fn);
  void tell() const {
    if (told_) told_();
  }

  storage_thread &storage_;
  loop &control_;
  const clock_source &clock_;
  const files files_;
  std::map<std::string, revocation, std::less<>> by_word_;
  agent_lines by_file_;
  std::set<std::string> own_;
  std::optional<agent_lines> listed_;
  std::function<void()> told_;
};

}  // namespace hive::fleet
