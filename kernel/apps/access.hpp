// Who may come in: the client keys and the admin keys of a router process, from their files and, in mode dynamic, from the registry
// that the admin API writes. Control thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "apps/client_keys.hpp"
#include "base/loop.hpp"
#include "fleet/storage_thread.hpp"
#include "tenancy/key_registry.hpp"

namespace hive::apps {

class access {
 public:
  using ring = std::shared_ptr<const tenancy::keyring>;

  // Both outlive this.
  access(const config::router_settings &settings, loop &control) : settings_(settings), control_(control) {}

  // Reads the files. An error stops the start. Of the settings' shared secrets hashes are kept: their text is not needed afterwards.
  status start();
  // In mode dynamic takes up the keys that the admin API wrote before; waits for the storage, which outlives this.
  status restore(fleet::storage_thread &);

  // What both are for from now on; before that nothing is asked and nobody is told. `fits`: whether these keys would do with the policies
  // of the moment. `publish`: gives keys to every worker, and calls back here when all of them use it.
  void serve(std::function<status(const tenancy::keyring &)> fits, std::function<void(ring, std::function<void()>)> publish,
             std::function<void(const std::vector<config::admin_key> &)> publish_admin);

  // At a reload: the files again, in mode dynamic those of the admin keys alone. Nothing changes unless all of them are good; the log
  // says what came of it. The first thing that is wrong, or ok; empty when there is no file to read.
  std::optional<status> reload();

  // At a reload: the shared secrets of the agents, read again. From now on new keys are judged beside these; one that is a key already is
  // refused, and those of before count on. To be asked before the hubs get them.
  status take_secrets(const std::vector<std::string> &);

  // Once a second: frees the keys that were replaced and that no request began with any more. Here, because a worker that let go of the
  // last of them would stand still for as long as tens of thousands of keys take.
  void sweep();

  // Tells whether a text, with white space around it or without, is a key or a shared secret of this moment. To be asked on any thread.
  std::function<bool(std::string_view)> secret_test() const;

  const ring &keys() const { return keys_; }
  const std::vector<config::admin_key> &admin_keys() const { return admin_keys_; }
  tenancy::key_registry *registry() { return registry_.get(); }   // null: the mode is not dynamic

 private:
  status read_again();
  void put_to_work(ring, std::function<void()> everywhere);
  status may_become(const tenancy::auth_document &) const;

  const config::router_settings &settings_;
  loop &control_;
  ring keys_;
  std::vector<ring> retired_;
  std::vector<config::admin_key> admin_keys_;
  std::vector<digest32> secrets_;                // of the shared secrets in force
  std::unique_ptr<tenancy::stored_keys> stored_;
  std::unique_ptr<tenancy::key_registry> registry_;
  std::function<status(const tenancy::keyring &)> fits_;
  std::function<void(ring, std::function<void()>)> publish_;
  std::function<void(const std::vector<config::admin_key> &)> publish_admin_;
};

}  // namespace hive::apps
