#include "tenancy/key_registry.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/clock.hpp"
#include "observe/log.hpp"
#include "tenancy/auth_file.hpp"

namespace hive::tenancy {

namespace {

auto &auth_log() { return observe::log("auth"); }

std::shared_ptr<const keyring> ring_of(const key_set &set) {
  std::vector<client_key> keys;
  keys.reserve(set.entries.size());
  for (const auto &[id, entry] : set.entries) keys.push_back(entry->key);
  return keyring::of(std::move(keys), auth_mode::dynamic, unix_ms());
}

status check_set(const key_set &set) {
  if (set.entries.size() > key_registry::most_keys)
    return fail(errc::invalid, std::to_string(set.entries.size()) + " keys are more than " + std::to_string(key_registry::most_keys));
  std::map<digest32, std::string_view> owners;
  for (const auto &[id, entry] : set.entries) {
    const auto [first, fresh] = owners.emplace(entry->key.hash, id);
    if (!fresh) return fail(errc::invalid, "key_hash of \"" + id + "\" is that of \"" + std::string(first->second) + "\" already; remove one");
  }
  return {};
}

bool same_entries(const key_set &a, const key_set &b) {
  return std::equal(a.entries.begin(), a.entries.end(), b.entries.begin(), b.entries.end(), [](const auto &one, const auto &other) {
    return one.first == other.first && (one.second == other.second || *one.second == *other.second);
  });
}

// One line, however many owners there are: it comes again with every write.
void tell_unequal_limits(const keyring &ring) {
  const auto found = unequal_limits(ring);
  if (found.empty()) return;
  std::string words = words_about_unequal_limits(*found.front().first, *found.front().second);
  if (found.size() > 1) words += "; so it is with keys of " + std::to_string(found.size() - 1) + " other owner(s)";
  auth_log().warn("{}", words);
}

}  // namespace

key_registry::key_registry(surroundings around) : around_(std::move(around)), ring_(ring_of(now_)) {}

status key_registry::restore() {
  if (around_.store == nullptr) return {};
  auto stored = around_.store->read_all();
  if (!stored) return stored.why();
  if (const status s = check_set(*stored); !s) return s.at("stored client keys");
  auto ring = ring_of(*stored);
  if (around_.fits)
    if (const status s = around_.fits(*ring); !s) return s.at("stored client keys");
  now_ = *std::move(stored);
  ring_ = std::move(ring);
  auth_log().info("{} client key(s) of the admin API restored, version \"{}\"", now_.entries.size(), now_.version);
  tell_unequal_limits(*ring_);
  return {};
}

void key_registry::put(key_entry entry, std::string version, std::string who, done_fn done) {
  const std::string id = entry.key.id;
  auto made = std::make_shared<const key_entry>(std::move(entry));
  enter({[this, id, made](key_set &next) -> status {
           const client_key *holder = ring_->find(made->key.hash);
           if (holder != nullptr && holder->id != id) return fail(errc::invalid, "key_hash is that of key \"" + holder->id + "\" already; a key has one entry");
           next.entries[id] = made;
           return {};
         },
         std::move(version), "client key \"" + id + "\" was written by " + who, std::move(done)});
}

void key_registry::erase(std::string id, std::string version, std::string who, done_fn done) {
  enter({[id](key_set &next) -> status {
           next.entries.erase(id);
           return {};
         },
         std::move(version), "client key \"" + id + "\" was deleted by " + who, std::move(done)});
}

void key_registry::replace(std::vector<key_entry> entries, std::string version, std::string who, done_fn done) {
  const std::string what = "all client keys were replaced by " + std::to_string(entries.size()) + " others by " + who;
  enter({[held = std::make_shared<const std::vector<key_entry>>(std::move(entries))](key_set &next) -> status {
           next.entries.clear();
           for (const key_entry &each : *held) {
             const auto [at, fresh] = next.entries.emplace(each.key.id, nullptr);
             if (!fresh) return fail(errc::invalid, "the id \"" + each.key.id + "\" stands in two entries; remove one");
             at->second = std::make_shared<const key_entry>(each);
           }
           return check_set(next);
         },
         std::move(version), what, std::move(done)});
}

void key_registry::enter(change what) {
  if (!changing_) {
    changing_ = true;
    return begin(what);
  }
  if (waiting_.size() >= most_waiting) return what.done(fail(errc::unavailable, "too many changes of keys wait already; try again"));
  waiting_.push_back(std::move(what));
}

void key_registry::leave() {
  changing_ = false;
  if (waiting_.empty()) return;
  const change next = std::move(waiting_.front());
  waiting_.pop_front();
  changing_ = true;
  begin(next);
}

void key_registry::begin(const change &what) {
  const auto refuse = [&](const status &s) {
    what.done(s);
    leave();
  };
  if (const status s = check_key_version(what.version); !s) return refuse(s);
  if (what.version < now_.version) return refuse(fail(errc::conflict, "stale version"));
  key_set next = now_;
  next.version = what.version;
  if (const status s = what.edit(next); !s) return refuse(s);
  if (next.entries.size() > most_keys) return refuse(fail(errc::invalid, "there are " + std::to_string(most_keys) + " keys already, and no more may be"));
  if (around_.strict_versions && what.version == now_.version && !same_entries(now_, next))
    return refuse(fail(errc::conflict, "this version holds already, with other keys"));
  store_and_publish(what, std::move(next));
}

// Stored first, so that whoever got the answer finds it again after any end of the process.
void key_registry::store_and_publish(const change &what, key_set next) {
  auto ring = ring_of(next);
  if (around_.fits)
    if (const status s = around_.fits(*ring); !s) {
      what.done(fail(errc::invalid, s.text()));
      return leave();
    }
  if (around_.store == nullptr) return settle(what, std::move(next), std::move(ring));
  around_.store->write(now_, next, [this, what, next, ring](const status &stored) {
    if (!stored) {
      auth_log().error("the client keys stay as they were: they could not be stored: {}", stored.text());
      what.done(fail(errc::unavailable, "not stored, so nothing has changed: " + stored.text()));
      return leave();
    }
    // A policy may have come while the storage wrote.
    const status fits = around_.fits ? around_.fits(*ring) : status();
    if (fits) return settle(what, next, ring);
    around_.store->write(next, now_, [this, what, fits](const status &again) {
      if (!again) auth_log().error("the stored form of a refused change of client keys could not be taken back: {}", again.text());
      what.done(fail(errc::invalid, fits.text()));
      leave();
    });
  });
}

void key_registry::settle(const change &what, key_set next, std::shared_ptr<const keyring> ring) {
  now_ = std::move(next);
  ring_ = std::move(ring);
  auth_log().info("{}; {} client key(s), version \"{}\"", what.what, now_.entries.size(), now_.version);
  tell_unequal_limits(*ring_);
  around_.publish(ring_, [done = what.done] { done({}); });
  leave();
}

}  // namespace hive::tenancy
