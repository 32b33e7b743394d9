// The settings that router and agent share about the link's secret, and how they become secrets: at the start, and again from
// the same places on SIGHUP.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "config/table.hpp"

namespace hive::config {

// As written. A file wins over the variable beside it.
struct link_secret_sources {
  std::string file, text;                    // the secret in use
  std::string previous_file, previous_text;  // the one before, accepted too while it is changed
  // The variables that the texts came from, for errors.
  std::string text_from = "HIVENET_ROUTER_JWT_SECRET", previous_text_from = "HIVENET_ROUTER_JWT_SECRET_PREVIOUS";
};

inline constexpr size_t most_link_secrets = 8;

void add_link_secret_rows(table &, link_secret_sources &, const std::string &shared_with);
// Newest first, each once; empty when no place is named. Reads files; any thread.
result<std::vector<std::string>> read_link_secrets(const link_secret_sources &);

// What is wrong with the files' rights, in words for the log.
std::vector<std::string> judge_secret_files(const link_secret_sources &);

// A peer id as a command line names it: 12D3KooW...
status is_peer_id(const std::string &text);

}  // namespace hive::config
