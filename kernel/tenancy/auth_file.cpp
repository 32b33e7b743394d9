#include "tenancy/auth_file.hpp"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "tenancy/instant.hpp"

namespace hive::tenancy {

namespace {

using config::yaml::node;

constexpr size_t most_name_bytes = 200;
constexpr size_t shown_preview = 16;
constexpr int64_t most_priority = 1000;
constexpr size_t most_id_bytes = 200;
constexpr int64_t most_parallel = UINT32_MAX;
constexpr std::string_view flat_limits[] = {"requests_per_minute", "tokens_per_day", "input_tokens_per_minute",
                                            "output_tokens_per_minute"};
constexpr std::string_view model_limit_keys[] = {"requests_per_minute_per_replica", "tokens_per_day"};

std::string_view strip(std::string_view text) {
  constexpr std::string_view bom = "\xef\xbb\xbf";
  text = trim(text);
  while (text.starts_with(bom)) text = trim(text.substr(bom.size()));
  while (text.ends_with(bom)) text = trim(text.substr(0, text.size() - bom.size()));
  return text;
}

bool plain(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

status check_word(std::string_view word, const std::string &what) {
  if (word.empty()) return fail(errc::invalid, what + " is required and may not be empty");
  if (word.size() > most_id_bytes) return fail(errc::invalid, what + " is longer than " + std::to_string(most_id_bytes) + " bytes");
  if (!plain(word) || !simdjson::validate_utf8(word.data(), word.size())) return fail(errc::invalid, what + " is no UTF-8 or holds a control character");
  return {};
}

class reader {
 public:
  // A file, or with `entry` one entry of the key registry.
  reader(const auth_options &options, auth_document &out, bool entry = false) : options_(options), out_(out), entry_(entry) {}

  void read(const node &root) {
    name_ = root.file();
    if (const status s = root.want_map(); !s) return problem(s);
    unknown(root, {"api", "admin"});
    read_admin(root.find("admin"));
    const node *api = root.find("api");
    if (api == nullptr || api->is_null()) return finish(auth_mode::none);
    if (const status s = api->want_map(); !s) return problem(s);
    unknown(*api, {"mode", "keys"});
    const node *mode = api->find("mode");
    const std::string word = text_of(mode);
    const node *keys = api->find("keys");
    const bool listed = keys != nullptr && keys->is_list() && !keys->items().empty();
    out_.mode_given = !word.empty();
    if (word.empty() || word == "none") {
      if (listed)
        suspect(keys->wrong("keys are listed, but api.mode is none: they are not asked for, and everybody may use the API"));
      return finish(auth_mode::none);
    }
    if (word == "dynamic") {
      if (listed) suspect(keys->wrong("keys are listed, but api.mode is dynamic: they open nothing; write them to /admin/api-keys"));
      out_.admin_key_required = true;
      return finish(auth_mode::dynamic);
    }
    if (word != "api-key") return problem(mode->wrong("\"" + word + "\" is no mode; use none, api-key or dynamic"));
    if (keys != nullptr)
      if (const status s = keys->want_list(); !s) return problem(s);
    if (!listed) return problem(api->wrong("the mode api-key needs at least one entry under keys"));
    for (const node &item : keys->items()) read_key(item);
    finish(auth_mode::api_key);
  }

  // An entry of the key registry: the same rules in its own words. Whatever `id` is not empty is the entry's.
  std::optional<key_entry> read_entry(const node &item, std::string id) {
    if (!item.is_map()) return problem(item.wrong("an object with key_hash, owner and name is needed")), std::nullopt;
    unknown(item, {"id", "version", "key_hash", "key_preview", "owner", "name", "enabled", "expires_at", "allowed_models", "quota", "max_occupancy_share",
                   "priority", "max_parallel_requests", "max_parallel_requests_per_model", "when_parallel_full"});
    key_entry entry;
    client_key &key = entry.key;
    key.id = std::string(trim(id.empty() ? text_of(item.find("id")) : id));
    if (const status s = check_key_id(key.id); !s) problem(item.wrong(s.message()));
    key.preview = text_of(item.find("key_preview"));
    if (key.preview.size() > most_name_bytes || !plain(key.preview))
      problem(item.find("key_preview")->wrong("longer than 200 bytes, or holds a control character"));
    if (!read_hash(item, key)) return std::nullopt;
    // Not shown: it is the secret.
    if (equal_secret(sha256(key.id), key.hash)) problem(item.wrong("the id is the key itself; an id stands in logs and metrics, choose another"));
    key.name = named(item, "name");
    key.tenant = named(item, "owner");
    read_enabled(item, key);
    if (const std::string instant = text_of(item.find("expires_at")); !instant.empty()) {
      if (const auto at = parse_instant(instant)) key.expires_unix_ms = *at;
      else problem(item.find("expires_at")->wrong(at.why().message()));
    }
    read_models(item.find("allowed_models"), key);
    entry.allowed_models = key.models;
    read_limits(item, key);
    if (!out_.problems.empty()) return std::nullopt;
    return entry;
  }

 private:
  // Of an entry, absent means off.
  void read_enabled(const node &item, client_key &key) {
    const node *on = item.find("enabled");
    if (on != nullptr && !on->is_null()) {
      if (const auto value = on->as_bool()) key.enabled = *value;
      else problem(value.why());
    } else if (options_.strict) {
      problem(item.wrong("enabled is required: true or false"));
    } else {
      key.enabled = false;
    }
  }

  void read_admin(const node *admin) {
    if (admin == nullptr || admin->is_null()) return;
    if (const status s = admin->want_map(); !s) return problem(s);
    unknown(*admin, {"mode"});
    const node *mode = admin->find("mode");
    const std::string word = text_of(mode);
    if (word == "api-key") out_.admin_key_required = true;
    else if (!word.empty() && word != "none") problem(mode->wrong("\"" + word + "\" is no mode; use none or api-key"));
  }

  void read_key(const node &item) {
    who_.clear();
    if (!item.is_map()) return problem(item.wrong("a key must be a map with key_hash and metadata"));
    unknown(item, {"key_hash", "key_preview", "metadata", "models", "quota", "max_occupancy_share", "enabled", "priority",
                   "max_parallel_requests", "max_parallel_requests_per_model", "when_parallel_full"});
    client_key key;
    key.preview = text_of(item.find("key_preview"));
    if (plain(key.preview) && !key.preview.empty() && key.preview.size() <= shown_preview) who_ = " (key " + key.preview + ")";
    if (!read_hash(item, key)) return;
    if (const node *on = item.find("enabled"); on != nullptr && !on->is_null()) {
      if (const auto value = on->as_bool()) key.enabled = *value;
      else problem(value.why());
    }
    read_metadata(item, key);
    read_models(item.find("models"), key);
    read_limits(item, key);
    keys_.push_back(std::move(key));
  }

  void read_limits(const node &item, client_key &key) {
    read_quota(item.find("quota"), key);
    read_share(item.find("max_occupancy_share"), key);
    read_priority(item.find("priority"), key);
    read_parallel(item, key);
    std::sort(key.models.begin(), key.models.end());
    key.models.erase(std::unique(key.models.begin(), key.models.end()), key.models.end());
  }

  void read_parallel(const node &item, client_key &key) {
    const std::pair<const char *, uint32_t *> limits[] = {{"max_parallel_requests", &key.max_parallel_requests},
                                                          {"max_parallel_requests_per_model", &key.max_parallel_requests_per_model}};
    for (const auto &[name, limit] : limits) {
      const auto value = read_limit(item.find(name));
      if (value && *value > most_parallel) problem(item.find(name)->wrong("out of range; 0 means unlimited" + who_));
      else *limit = static_cast<uint32_t>(value.value_or(0));
    }
    const node *full = item.find("when_parallel_full");
    const std::string word = text_of(full);
    if (word == "wait") key.parallel_waits = true;
    else if (!word.empty() && word != "reject") problem(full->wrong("\"" + word.substr(0, 40) + "\" is no choice; use reject or wait" + who_));
  }

  // Never shows what stands there: it may be the key itself.
  bool read_hash(const node &item, client_key &key) {
    const node *at = item.find("key_hash");
    const std::string text = at == nullptr ? std::string() : text_of(at);
    if (strip(text).empty()) return problem(item.wrong("key_hash is required: the SHA-256 of the key, 64 hexadecimal digits" + who_)), false;
    const auto bytes = from_hex(strip(text));
    if (!bytes || bytes->size() != key.hash.size())
      return problem(at->wrong("not a SHA-256; write the 64 hexadecimal digits that `printf %s KEY | sha256sum` prints" + who_)), false;
    std::copy(bytes->begin(), bytes->end(), key.hash.begin());
    if (!key.preview.empty() && equal_secret(sha256(key.preview), key.hash)) {
      who_.clear();
      key.preview.clear();
      suspect(item.wrong("key_preview is the whole key; it is a secret, write its last 4 characters only"));
    }
    const auto [first, fresh] = seen_.emplace(key.hash, item.where() + ": " + item.path());
    if (!fresh) return problem(at->wrong("the same hash stands at " + first->second + "; remove one" + who_)), false;
    return true;
  }

  void read_metadata(const node &item, client_key &key) {
    const node *about = item.find("metadata");
    if (about == nullptr || about->is_null()) return problem(item.wrong("metadata with name and owner is required" + who_));
    if (const status s = about->want_map(); !s) return problem(s);
    unknown(*about, {"name", "owner", "description", "created_at", "expires_at"});
    key.name = named(*about, "name");
    key.tenant = named(*about, "owner");
    const node *expires = about->find("expires_at");
    const std::string date = text_of(expires);
    if (date.empty()) return;
    const auto end = parse_expiry(date);
    if (!end) return problem(expires->wrong(end.why().message() + who_));
    key.expires_unix_ms = *end;
    if (key.expires_unix_ms <= options_.now_unix_ms) warn(expires->wrong("this key has expired and opens nothing" + who_));
  }

  std::string named(const node &about, std::string_view field) {
    const node *at = about.find(field);
    const std::string text = text_of(at);
    if (trim(text).empty()) problem(about.wrong(std::string(field) + " is required and may not be empty" + who_));
    else if (text.size() > most_name_bytes) problem(at->wrong("longer than " + std::to_string(most_name_bytes) + " bytes" + who_));
    else if (!plain(text)) problem(at->wrong("holds a control character" + who_));
    return text;
  }

  void read_models(const node *list, client_key &key) {
    if (list == nullptr || list->is_null()) return;
    const auto names = list->as_texts();
    if (!names) return problem(names.why());
    if (std::find(names->begin(), names->end(), "") != names->end())
      return problem(list->wrong("an empty text is no model; without a restriction leave the list out" + who_));
    key.models = *names;
  }

  // One of two shapes.
  void read_quota(const node *quota, client_key &key) {
    if (quota == nullptr || quota->is_null()) return;
    if (const status s = quota->want_map(); !s) return problem(s);
    unknown(*quota, {flat_limits[0], flat_limits[1], flat_limits[2], flat_limits[3], "per_model"});
    uint64_t flat[std::size(flat_limits)] = {};
    for (size_t i = 0; i < std::size(flat_limits); ++i) flat[i] = static_cast<uint64_t>(read_limit(quota->find(flat_limits[i])).value_or(0));
    key.requests_per_minute = flat[0];
    key.tokens_per_day = flat[1];
    key.input_tokens_per_minute = flat[2];
    key.output_tokens_per_minute = flat[3];
    const node *models = quota->find("per_model");
    if (models != nullptr && !models->is_null()) {
      if (std::any_of(std::begin(flat), std::end(flat), [](uint64_t limit) { return limit > 0; }))
        return problem(quota->wrong("per_model and the flat limits exclude each other; a quota has one shape" + who_));
      if (!models->is_map()) return problem(models->wrong("a map from model to limits is needed" + who_));
      if (models->entries().empty()) return problem(models->wrong("an empty map would allow no model; list some or leave it out" + who_));
      key.models.clear();
      key.per_model_quota = true;
      for (const node::entry &each : models->entries()) read_model_quota(each, key);
      std::sort(key.per_model.begin(), key.per_model.end(), [](const model_quota &a, const model_quota &b) { return a.model < b.model; });
    }
  }

  void read_model_quota(const node::entry &each, client_key &key) {
    if (each.key.empty()) return problem(each.value.wrong("an empty text is no model" + who_));
    if (!each.value.is_map()) return problem(each.value.wrong("a map with both limits is needed" + who_));
    unknown(each.value, {model_limit_keys[0], model_limit_keys[1]});
    uint64_t limits[std::size(model_limit_keys)] = {};
    for (size_t i = 0; i < std::size(model_limit_keys); ++i) {
      const node *at = each.value.find(model_limit_keys[i]);
      if (at == nullptr || at->is_null()) problem(each.value.wrong(std::string(model_limit_keys[i]) + " is required; 0 means unlimited" + who_));
      else limits[i] = static_cast<uint64_t>(read_limit(at).value_or(0));
    }
    key.models.push_back(each.key);
    key.per_model.push_back({each.key, limits[0], limits[1]});
  }

  std::optional<int64_t> read_limit(const node *at) {
    if (at == nullptr || at->is_null()) return std::nullopt;
    const auto value = at->as_int();
    if (!value) return problem(value.why()), std::nullopt;
    if (*value < 0) return problem(at->wrong(at->text() + " is negative; it must be >= 0, and 0 means unlimited" + who_)), std::nullopt;
    return *value;
  }

  void read_share(const node *at, client_key &key) {
    if (at == nullptr || at->is_null()) return;
    const auto value = at->as_number();
    if (!value) return problem(value.why());
    if (*value < 0 || *value > 1) return problem(at->wrong(at->text() + " is no share; it must be between 0 (unset) and 1" + who_));
    key.max_occupancy_share = *value;
  }

  void read_priority(const node *at, client_key &key) {
    if (at == nullptr || at->is_null()) return;
    const auto value = at->as_int();
    if (!value) return problem(value.why());
    if (*value < -most_priority || *value > most_priority)
      return problem(at->wrong(at->text() + " is no priority; it must be between -1000 and 1000, and 0 is usual" + who_));
    key.priority = static_cast<int32_t>(*value);
  }

  void finish(auth_mode mode) {
    if (!out_.problems.empty()) return;
    auto ring = mode == auth_mode::none ? keyring::open_to_all() : keyring::of(std::move(keys_), mode, options_.now_unix_ms);
    for (const auto &[one, other] : unequal_limits(*ring)) suspect(fail(errc::invalid, words_about_unequal_limits(*one, *other), name_));
    if (out_.problems.empty()) out_.keys = std::move(ring);
  }

  std::string text_of(const node *at) {
    if (at == nullptr || at->is_null()) return {};
    if (auto text = at->as_text(); text && (!entry_ || at->quoted())) return *std::move(text);
    problem(at->wrong("text is needed here"));
    return {};
  }

  void unknown(const node &map, std::initializer_list<std::string_view> known) {
    for (const status &s : map.unknown_keys(known)) suspect(s);
  }
  // Loads, and hardly means what it says.
  void suspect(const status &s) {
    if (options_.strict) problem(s);
    else warn(s);
  }
  void warn(const status &s) { out_.warnings.push_back(s.text()); }
  void problem(status s) { out_.problems.push_back(std::move(s)); }

  const auth_options &options_;
  auth_document &out_;
  const bool entry_;
  std::string name_;                       // of the file
  std::vector<client_key> keys_;
  std::map<digest32, std::string> seen_;   // and where it stands
  std::string who_;                        // " (key sk-...abcd)", of the key being read
};

}  // namespace

result<uint64_t> parse_expiry(std::string_view text) {
  const auto wrong = [&] { return fail(errc::invalid, "\"" + std::string(text.substr(0, 40)) + "\" is no date; write it as DD-MM-YYYY"); };
  if (text.size() != 10 || text[2] != '-' || text[5] != '-') return wrong();
  unsigned parts[3] = {};
  const std::string_view pieces[] = {text.substr(0, 2), text.substr(3, 2), text.substr(6, 4)};
  for (size_t i = 0; i < std::size(pieces); ++i) {
    const auto [end, error] = std::from_chars(pieces[i].data(), pieces[i].data() + pieces[i].size(), parts[i]);
    if (error != std::errc() || end != pieces[i].data() + pieces[i].size()) return wrong();
  }
  namespace chrono = std::chrono;
  const chrono::year_month_day day{chrono::year(static_cast<int>(parts[2])), chrono::month(parts[1]), chrono::day(parts[0])};
  if (!day.ok() || parts[2] < 1970) return wrong();
  const auto next = chrono::sys_days(day) + chrono::days(1);
  return static_cast<uint64_t>(chrono::duration_cast<chrono::milliseconds>(next.time_since_epoch()).count());
}

auth_document parse_auth(std::string_view text, const std::string &name, const auth_options &options) {
  auth_document out;
  // A registry of tens of thousands of keys is a file of tens of megabytes.
  const auto root = config::yaml::parse(text, name, {.bytes = 64u << 20, .depth = 16, .nodes = 2'000'000});
  if (root) reader(options, out).read(*root);
  else out.problems.push_back(root.why());
  return out;
}

result<key_entry> read_key_entry(const node &item, std::string id, const auth_options &options, std::vector<std::string> &warnings) {
  constexpr size_t most_told = 5;
  auth_document found;
  auto entry = reader(options, found, true).read_entry(item, std::move(id));
  if (entry) {
    warnings.insert(warnings.end(), found.warnings.begin(), found.warnings.end());
    return *std::move(entry);
  }
  std::string words;
  for (size_t i = 0; i < found.problems.size() && i < most_told; ++i) words += (i == 0 ? "" : "; ") + found.problems[i].text();
  return fail(errc::invalid, words);
}

status check_key_version(std::string_view version) { return check_word(version, "version"); }

status check_key_id(std::string_view id) {
  if (const status s = check_word(id, "id"); !s) return s;
  if (id.starts_with("sk-")) return fail(errc::invalid, "an id may not begin with sk-: it would look like a key, and ids stand in logs and metrics");
  if (id == "version" || id == "replace") return fail(errc::invalid, "\"" + std::string(id) + "\" cannot be an id: it is the name of a route");
  return {};
}

std::string words_about_unequal_limits(const client_key &one, const client_key &other) {
  const auto shown = [](const client_key &key) { return key.preview.empty() ? key.id : key.preview; };
  const char *limits = one.per_model_quota ? "the limits of a model" : "requests_per_minute or tokens_per_day";
  return "the keys " + shown(one) + " and " + shown(other) + " of owner \"" + one.tenant + "\" differ in " + limits +
         ", which all keys of an owner share; write the same for each";
}

auth_document read_auth_file(const std::string &file, const auth_options &options) {
  const auto text = config::yaml::read_file(file, 64u << 20);
  if (text) return parse_auth(*text, file, options);
  auth_document out;
  out.problems.push_back(text.why());
  return out;
}

}  // namespace hive::tenancy
