// Where the key registry is kept over restarts: a record clientKey:<id> for each entry, with the hash and never a key, and the
// version beside them. What changes together is written together.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.hpp"
#include "base/status.hpp"
#include "fleet/storage_thread.hpp"
#include "tenancy/key_entry.hpp"

namespace hive::tenancy {

// All entries of one moment. A plain value; the entries themselves never change.
struct key_set {
  std::string version;   // "" until the first write
  std::map<std::string, std::shared_ptr<const key_entry>, std::less<>> entries;   // by id
};

// Control thread; `done` is called there too, never before the call returns.
class key_store {
 public:
  using done_fn = std::function<void(status)>;
  virtual ~key_store() = default;
  virtual result<key_set> read_all() = 0;  // waits for the storage; at the start only
  // Makes of what is stored as `before` what `after` says, all or nothing, durable once done says ok.
  virtual void write(const key_set &before, const key_set &after, done_fn) = 0;
};

class stored_keys final : public key_store {
 public:
  // Both outlive it; the storage thread is stopped before the loop is destroyed.
  stored_keys(fleet::storage_thread &storage, loop &control) : storage_(storage), control_(control) {}
  result<key_set> read_all() override;
  void write(const key_set &before, const key_set &after, done_fn) override;

 private:
  fleet::storage_thread &storage_;
  loop &control_;
};

// The writes between the two, the version among them; entries that are equal are left alone.
std::vector<fleet::stored_write> writes_between(const key_set &before, const key_set &after);

}  // namespace hive::tenancy
