// An entry of the key registry: taken whole or refused with words; what was taken is stored and comes back the same, and nothing that is
// shown or said holds its hash.
#include <boost/json/parse.hpp>

#include "fuzz.hpp"
#include "tenancy/auth_file.hpp"
#include "tenancy/key_entry.hpp"

using namespace hive;
using fuzz::must;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::input in(data, size);
  const uint8_t how = in.byte();
  const fuzz::exact_copy text(in.rest());
  boost::system::error_code error;
  boost::json::parse_options options;
  options.max_depth = 16;
  const auto value = boost::json::parse(boost::json::string_view(text.text().data(), text.text().size()), error, {}, options);
  if (error) return 0;
  std::vector<std::string> warnings;
  const std::string id = (how & 2) != 0 ? "of the path" : "";
  const auto entry = tenancy::read_key_entry(config::yaml::from_json(value, "key[7]"), id, {(how & 1) != 0, 1'800'000'000'000}, warnings);
  if (!entry) {
    must(!entry.why().text().empty(), "a refusal says what");
    return 0;
  }
  must((how & 1) == 0 || warnings.empty() || warnings.front().find("unknown") == std::string::npos, "strict refuses what is unknown");
  must(tenancy::check_key_id(entry->key.id).ok(), "an id that can be asked for");
  must((how & 2) == 0 || entry->key.id == id, "the path's id wins");
  must(!entry->key.tenant.empty() && !entry->key.name.empty(), "every key is somebody's");
  must(entry->key.max_occupancy_share >= 0 && entry->key.max_occupancy_share <= 1, "a share is one");
  must(tenancy::to_json(*entry).at("key_hash").as_string().empty(), "no hash is shown");
  const auto back = tenancy::decode_key_entry(entry->key.id, tenancy::encode(*entry));
  must(back && *back == *entry, "what is stored comes back the same");
  return 0;
}
