#include "config/admin_keys.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "config/secret.hpp"

namespace hive::config {

namespace {

constexpr std::string_view read_only_mark = "ro:";
constexpr size_t id_digits = 12;

}  // namespace

admin_keys_read hash_admin_keys(std::vector<std::string> &texts, const std::string &source) {
  admin_keys_read out;
  for (std::string &text : texts) {
    admin_key key;
    std::string_view value = trim_secret(text);
    if (value.starts_with(read_only_mark)) {
      key.read_only = true;
      value.remove_prefix(read_only_mark.size());
    }
    auto clean = clean_secret(value, source, min_admin_key);
    if (clean) {
      key.hash = sha256(*clean);
      key.id = to_hex(key.hash).substr(0, id_digits);
      if (clean->size() < good_admin_key) out.warnings.push_back(source + ": an admin key has fewer than 32 bytes");
      out.keys.push_back(std::move(key));
      wipe(*clean);
    } else {
      out.problems.push_back(clean.why());
    }
    wipe(text);
  }
  return out;
}

admin_keys_read join_admin_keys(const std::vector<admin_key> &given, const std::string &file, const std::vector<std::string> &secrets) {
  constexpr const char *place = "admin API keys";
  admin_keys_read out;
  out.keys = given;
  if (!file.empty()) {
    auto texts = read_secrets(file, min_admin_key);
    if (texts) {
      admin_keys_read more = hash_admin_keys(*texts, file);
      out.keys.insert(out.keys.end(), more.keys.begin(), more.keys.end());
      std::move(more.problems.begin(), more.problems.end(), std::back_inserter(out.problems));
      std::move(more.warnings.begin(), more.warnings.end(), std::back_inserter(out.warnings));
    } else {
      out.problems.push_back(texts.why());
    }
  }
  for (size_t i = 0; i < out.keys.size(); ++i) {
    const digest32 &hash = out.keys[i].hash;
    const auto same = [&](const admin_key &other) { return equal_secret(other.hash, hash); };
    if (std::any_of(out.keys.begin(), out.keys.begin() + static_cast<ptrdiff_t>(i), same))
      out.problems.push_back(fail(errc::invalid, "one key is given twice; remove one", place));
    if (std::any_of(secrets.begin(), secrets.end(), [&](const std::string &secret) { return equal_secret(sha256(secret), hash); }))
      out.problems.push_back(fail(errc::invalid, "one key is also the agents' shared secret; use another value", place));
  }
  return out;
}

}  // namespace hive::config
