// The client keys of mode dynamic: written through the admin API, kept by the storage, put to work as a new keyring that the workers
// swap in. Every change carries a version, an opaque text; one that is byte for byte less than the one that holds is stale.
//
// Control thread. Changes wait for each other: one that is being stored is over before the next begins. What is refused changes
// nothing. Readers of a keyring take no lock and never wait for a change.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "tenancy/key_store.hpp"
#include "tenancy/keyring.hpp"

namespace hive::tenancy {

class key_registry {
 public:
  static constexpr size_t most_keys = 100'000, most_waiting = 64;

  struct surroundings {
    std::function<status(const keyring &)> fits;   // beside policies and other secrets; may be empty
    // Gives the keyring to every worker; `everywhere` is called here once all of them use it.
    std::function<void(std::shared_ptr<const keyring>, std::function<void()> everywhere)> publish;
    key_store *store = nullptr;                    // null: gone at the end of the process
    bool strict_versions = false;                  // a version that holds already may not change anything
  };
  // Refusals by code: invalid, conflict (stale; the version that holds is now().version), unavailable (not now; nothing has changed).
  using done_fn = std::function<void(const status &)>;

  explicit key_registry(surroundings around);

  // Waits for the storage. An error stops the start.
  status restore();

  // `done` gets the answer once the change is stored and every worker has it, or at once when it is refused. `who` is for the log.
  void put(key_entry entry, std::string version, std::string who, done_fn done);
  void erase(std::string id, std::string version, std::string who, done_fn done);   // ok when there is none
  void replace(std::vector<key_entry> entries, std::string version, std::string who, done_fn done);  // all or nothing

  const key_set &now() const { return now_; }
  const std::shared_ptr<const keyring> &keys() const { return ring_; }

 private:
  struct change {
    std::function<status(key_set &)> edit;
    std::string version, what;     // for the log: "key a was written by ..."
    done_fn done;
  };
  void enter(change);
  void begin(const change &);
  void leave();
  void store_and_publish(const change &, key_set next);
  void settle(const change &, key_set next, std::shared_ptr<const keyring> ring);

  surroundings around_;
  key_set now_;
  std::shared_ptr<const keyring> ring_;
  bool changing_ = false;
  std::deque<change> waiting_;
};

}  // namespace hive::tenancy
