#include "routing/policy_record.hpp"

#include <boost/json.hpp>

#include <future>

namespace hive::routing {

namespace {

namespace json = boost::json;

constexpr std::string_view prefix = "policyDocument:";

}  // namespace

std::string record_key(std::string_view name) { return std::string(prefix).append(name); }

std::string encode(const policy_record &r) {
  return json::serialize(json::object{{"form", 1}, {"file_sha256", r.file_hash}, {"deleted", r.deleted}}) + "\n" + r.text;
}

std::optional<policy_record> decode(std::string_view key, std::string_view value) {
  if (!key.starts_with(prefix)) return std::nullopt;
  const size_t end = value.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  boost::system::error_code error;
  const json::value about = json::parse(json::string_view(value.data(), end), error);
  if (error || !about.is_object()) return std::nullopt;
  const json::object &o = about.get_object();
  const json::value *form = o.if_contains("form"), *hash = o.if_contains("file_sha256"), *deleted = o.if_contains("deleted");
  if (form == nullptr || !form->is_int64() || form->get_int64() != 1) return std::nullopt;
  if (hash == nullptr || !hash->is_string() || deleted == nullptr || !deleted->is_bool()) return std::nullopt;
  policy_record r;
  r.name = key.substr(prefix.size());
  r.file_hash = hash->get_string();
  r.deleted = deleted->get_bool();
  r.text = value.substr(end + 1);
  return r;
}

result<std::vector<policy_record>> stored_policies::read_all() {
  struct found {
    std::vector<policy_record> records;
    std::string corrupt;
  };
  auto answer = std::make_shared<std::promise<result<found>>>();
  auto read = answer->get_future();
  const bool posted = storage_.post([answer](fleet::storage_client &client) {
    found out;
    const status s = client.scan(prefix, [&](std::string_view key, std::string_view value) {
      if (auto record = decode(key, value)) out.records.push_back(*std::move(record));
      else out.corrupt = key;
      return true;
    });
    if (s) answer->set_value(std::move(out));
    else answer->set_value(s);
  });
  const auto refuse = [](const std::string &why) {
    return fail(errc::unavailable, "the policies that were written through the admin API cannot be read: " + why +
                                       "; start with --policy-store=false to leave them out", "storage");
  };
  if (!posted) return refuse("the storage thread's line is full, or it has stopped");
  const auto all = read.get();
  if (!all) return refuse(all.why().text());
  if (!all->corrupt.empty()) return refuse("record " + all->corrupt + " is damaged or of a newer release");
  return all->records;
}

void stored_policies::write(const policy_record &r, done_fn done) { apply({record_key(r.name), encode(r), 0, false}, std::move(done)); }

void stored_policies::erase(const std::string &name, done_fn done) { apply({record_key(name), {}, 0, true}, std::move(done)); }

void stored_policies::apply(fleet::stored_write what, done_fn done) {
  storage_.write({std::move(what)}, control_, std::move(done));
}

}  // namespace hive::routing
