// A client key as the admin API writes and shows it (docs/keys.md), and as the storage keeps it. Pure, any thread.
// How one is read and judged is auth_file.hpp's.
#pragma once

#include <boost/json/object.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenancy/client_key.hpp"

namespace hive::tenancy {

struct key_entry {
  client_key key;                            // `id` is the entry's
  std::vector<std::string> allowed_models;   // as written; key.models are those of the quota where it lists some

  bool operator==(const key_entry &) const = default;
};

// As it is shown: without the hash. Every field is there, but expires_at when there is none.
boost::json::object to_json(const key_entry &);

// The stored form, with the hash. What encode made decodes to an equal entry.
std::string encode(const key_entry &);
std::optional<key_entry> decode_key_entry(std::string_view id, std::string_view value);  // empty = damaged, or of a newer release

}  // namespace hive::tenancy
