// auth.yaml: who may use the client API, and whether /admin needs a key. Files of the Go product load unchanged
// (docs/keys.md); what they hold and is not understood is told, never passed over in silence.
//
// The whole file is judged before anything of it counts. Errors and warnings read "auth.yaml:12: api.keys[0].quota: what is
// wrong", never hold a hash or a key, and name the key by its preview. Control thread, or any one thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "config/yaml.hpp"
#include "tenancy/key_entry.hpp"
#include "tenancy/keyring.hpp"

namespace hive::tenancy {

struct auth_options {
  bool strict = false;              // --strict-auth: what else is warned about is an error, but for a key that has expired
  uint64_t now_unix_ms = 0;         // for the warning about keys that have expired
};

struct auth_document {
  std::shared_ptr<const keyring> keys;  // null when there are problems; empty in mode dynamic
  bool admin_key_required = false;      // admin.mode: api-key, or the mode dynamic
  bool mode_given = false;              // api.mode says one, if only none
  std::vector<status> problems;
  std::vector<std::string> warnings;
};

auth_document parse_auth(std::string_view text, const std::string &name, const auth_options &);
// A file that cannot be read is a problem like any other.
auth_document read_auth_file(const std::string &file, const auth_options &);

// "DD-MM-YYYY", valid through that whole UTC day: the instant the next one begins.
result<uint64_t> parse_expiry(std::string_view text);

// One entry of the key registry (docs/keys.md), judged by the same rules; `id`, if it is not empty, stands for the
// entry's own. An error names every field that is wrong, up to a few, and no hash.
result<key_entry> read_key_entry(const config::yaml::node &, std::string id, const auth_options &, std::vector<std::string> &warnings);
// An id stands in storage keys, logs, metrics and paths.
status check_key_id(std::string_view id);
status check_key_version(std::string_view version);
// Of two keys that unequal_limits found.
std::string words_about_unequal_limits(const client_key &, const client_key &);

}  // namespace hive::tenancy
