// What the storage keeps of a policy that was written through the admin API: one record a document under policyDocument:<name>, the
// global one's name being empty. A record outlives restarts; whether it still rules is decided against the files
// (policy_set.hpp), so an old one is harmless.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.hpp"
#include "base/status.hpp"
#include "fleet/storage_thread.hpp"

namespace hive::routing {

struct policy_record {
  std::string name;
  std::string text;             // as it was sent
  std::string file_hash;        // of the file of that name at that time; empty = there was none
  bool deleted = false;
};

std::string record_key(std::string_view name);
// A line of JSON about it, then the text byte by byte: text need not be UTF-8 to come back as it was.
std::string encode(const policy_record &);
std::optional<policy_record> decode(std::string_view key, std::string_view value);  // empty = not such a record

// Where the records are. Control thread; `done` is called there too, never before the call returns.
class policy_store {
 public:
  using done_fn = std::function<void(status)>;
  virtual ~policy_store() = default;
  virtual result<std::vector<policy_record>> read_all() = 0;  // waits for the storage; at the start only
  virtual void write(const policy_record &, done_fn) = 0;     // durable once done says ok
  virtual void erase(const std::string &name, done_fn) = 0;
};

class stored_policies final : public policy_store {
 public:
  // Both outlive it; the storage thread is stopped before the loop is destroyed.
  stored_policies(fleet::storage_thread &storage, loop &control) : storage_(storage), control_(control) {}
  result<std::vector<policy_record>> read_all() override;
  void write(const policy_record &, done_fn) override;
  void erase(const std::string &name, done_fn) override;

 private:
  void apply(fleet::stored_write, done_fn);

  fleet::storage_thread &storage_;
  loop &control_;
};

}  // namespace hive::routing
