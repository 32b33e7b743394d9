// Keys that open /admin, as hashes: the text of a key is wiped as soon as it is judged. Start of a program and SIGHUP, one thread;
// blocks on the disk. Errors name a source and never a key.
#pragma once

#include <string>
#include <vector>

#include "base/digest.hpp"
#include "base/status.hpp"

namespace hive::config {

inline constexpr size_t min_admin_key = 16, good_admin_key = 32;

struct admin_key {
  digest32 hash{};
  std::string id;          // the first 12 hex digits of the hash; may stand anywhere
  bool read_only = false;  // written as ro:KEY
};

struct admin_keys_read {
  std::vector<admin_key> keys;
  std::vector<status> problems;        // not empty: the keys are not to be used
  std::vector<std::string> warnings;
};

// Keys as somebody wrote them, each KEY or ro:KEY; the texts are overwritten. `source` names them in errors.
admin_keys_read hash_admin_keys(std::vector<std::string> &texts, const std::string &source);

// Those `given` and those of the file, if there is one, judged together: no two alike, whatever their roles, and none of them one
// of the `secrets` shared with the agents.
admin_keys_read join_admin_keys(const std::vector<admin_key> &given, const std::string &file, const std::vector<std::string> &secrets);

}  // namespace hive::config
