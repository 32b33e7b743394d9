#include "tenancy/key_store.hpp"

#include <future>
#include <string_view>
#include <utility>

namespace hive::tenancy {

namespace {

constexpr std::string_view key_prefix = "clientKey:", version_key = "clientKeysVersion";

bool same(const std::shared_ptr<const key_entry> &a, const std::shared_ptr<const key_entry> &b) { return a == b || *a == *b; }

}  // namespace

std::vector<fleet::stored_write> writes_between(const key_set &before, const key_set &after) {
  std::vector<fleet::stored_write> out;
  for (const auto &[id, entry] : before.entries)
    if (!after.entries.contains(id)) out.push_back({std::string(key_prefix) + id, {}, 0, true});
  for (const auto &[id, entry] : after.entries) {
    const auto old = before.entries.find(id);
    if (old == before.entries.end() || !same(old->second, entry)) out.push_back({std::string(key_prefix) + id, encode(*entry), 0, false});
  }
  if (before.version != after.version) out.push_back({std::string(version_key), after.version, 0, after.version.empty()});
  return out;
}

result<key_set> stored_keys::read_all() {
  struct found {
    key_set keys;
    std::string damaged;
  };
  auto answer = std::make_shared<std::promise<result<found>>>();
  auto read = answer->get_future();
  const bool posted = storage_.post([answer](fleet::storage_client &client) {
    found out;
    const status scanned = client.scan(key_prefix, [&](std::string_view key, std::string_view value) {
      const std::string_view id = key.substr(key_prefix.size());
      if (auto entry = decode_key_entry(id, value)) out.keys.entries.emplace(id, std::make_shared<const key_entry>(*std::move(entry)));
      else out.damaged = key;
      return true;
    });
    if (!scanned) return answer->set_value(scanned);
    auto version = client.get(version_key);
    if (!version) return answer->set_value(version.why());
    if (*version) out.keys.version = **version;
    answer->set_value(std::move(out));
  });
  const auto refuse = [](const std::string &why) {
    return fail(errc::unavailable, "the client keys that were written through the admin API cannot be read: " + why +
                                       "; start with key_store off to begin without them", "storage");
  };
  if (!posted) return refuse("the storage thread's line is full, or it has stopped");
  auto all = read.get();
  if (!all) return refuse(all.why().text());
  if (!all->damaged.empty()) return refuse("record " + all->damaged + " is damaged or of a newer release");
  return std::move(all->keys);
}

void stored_keys::write(const key_set &before, const key_set &after, done_fn done) {
  auto writes = writes_between(before, after);
  if (writes.empty()) return control_.post([done] { done({}); });
  storage_.write(std::move(writes), control_, std::move(done));
}

}  // namespace hive::tenancy
