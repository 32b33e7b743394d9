#include "apps/access.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "observe/log.hpp"

namespace hive::apps {

namespace {

auto &auth_log() { return observe::log("auth"); }

// Every problem is told; the first one is the answer.
status tell(const std::vector<status> &problems) {
  for (const status &s : problems) auth_log().error("{}", s.text());
  return problems.empty() ? status() : problems.front();
}

void tell_loaded(const tenancy::keyring &keys) {
  if (keys.mode() == tenancy::auth_mode::api_key) auth_log().info("{} client key(s) loaded", keys.keys().size());
}

}  // namespace

status access::start() {
  admin_keys_ = settings_.admin_keys;
  secrets_ = hashes_of(settings_.secrets);
  const tenancy::auth_document found = load_client_keys(settings_, admin_keys_, secrets_);
  if (const status s = tell(found.problems); !s) return s;
  for (const std::string &w : found.warnings) auth_log().warn("{}", w);
  keys_ = found.keys;
  tell_loaded(*keys_);
  return {};
}

status access::restore(fleet::storage_thread &storage) {
  if (keys_->mode() != tenancy::auth_mode::dynamic) return {};
  if (settings_.key_store) stored_ = std::make_unique<tenancy::stored_keys>(storage, control_);
  tenancy::key_registry::surroundings around;
  around.store = stored_.get();
  around.strict_versions = settings_.strict_key_versions;
  around.fits = [this](const tenancy::keyring &keys) {
    if (const status s = keys_apart(keys, admin_keys_, secrets_); !s) return s;
    return fits_ ? fits_(keys) : status();
  };
  around.publish = [this](ring keys, std::function<void()> everywhere) { put_to_work(std::move(keys), std::move(everywhere)); };
  registry_ = std::make_unique<tenancy::key_registry>(std::move(around));
  if (const status s = registry_->restore(); !s) return s;
  keys_ = registry_->keys();
  if (keys_->keys().empty()) auth_log().warn("api.mode is dynamic and there is no client key yet: clients get 401 until one is written to /admin/api-keys");
  return {};
}

void access::serve(std::function<status(const tenancy::keyring &)> fits, std::function<void(ring, std::function<void()>)> publish,
                   std::function<void(const std::vector<config::admin_key> &)> publish_admin) {
  fits_ = std::move(fits);
  publish_ = std::move(publish);
  publish_admin_ = std::move(publish_admin);
}

std::optional<status> access::reload() {
  if (settings_.auth_config_file.empty() && settings_.admin_keys_file.empty()) return std::nullopt;
  const status s = read_again();
  if (!s) auth_log().error("the client keys stay as they were, and so do the admin keys: {}", s.text());
  return s;
}

status access::take_secrets(const std::vector<std::string> &secrets) {
  std::vector<digest32> hashes = hashes_of(secrets);
  if (const status s = admin_keys_apart(admin_keys_, hashes); !s) return s;
  if (const status s = keys_apart(*keys_, admin_keys_, hashes); !s) return s;
  secrets_ = std::move(hashes);
  return {};
}

std::function<bool(std::string_view)> access::secret_test() const {
  return [ring = keys_, admin = admin_keys_, secrets = secrets_](std::string_view text) {
    const digest32 hash = sha256(trim(text));
    return ring->find(hash) != nullptr || std::any_of(secrets.begin(), secrets.end(), [&](const digest32 &one) { return equal_secret(one, hash); }) ||
           std::any_of(admin.begin(), admin.end(), [&](const config::admin_key &key) { return equal_secret(key.hash, hash); });
  };
}

// The file that is read is the file that is judged and the one that counts.
status access::read_again() {
  config::admin_keys_read admin = config::join_admin_keys(settings_.given_admin_keys, settings_.admin_keys_file, {});
  if (const status s = admin_keys_apart(admin.keys, secrets_); !s) admin.problems.push_back(s.at("admin API keys"));
  if (const status s = tell(admin.problems); !s) return s;
  const tenancy::auth_document found = load_client_keys(settings_, admin.keys, secrets_);
  if (const status s = tell(found.problems); !s) return s;
  if (const status s = may_become(found); !s) return s;
  if (registry_) {
    if (const status s = keys_apart(*registry_->keys(), admin.keys, secrets_); !s) return s;
  } else if (fits_) {
    if (const status s = fits_(*found.keys); !s) return s;
  }
  for (const std::string &w : admin.warnings) auth_log().warn("{}", w);
  for (const std::string &w : found.warnings) auth_log().warn("{}", w);
  admin_keys_ = std::move(admin.keys);
  if (publish_admin_) publish_admin_(admin_keys_);
  if (!settings_.admin_keys_file.empty()) auth_log().info("{} admin key(s) loaded", admin_keys_.size());
  if (registry_ || settings_.auth_config_file.empty()) return {};
  if (found.keys->mode() == tenancy::auth_mode::none && keys_->mode() != tenancy::auth_mode::none)
    auth_log().warn("{} says api.mode none: the client API is open to everybody from now on", settings_.auth_config_file);
  put_to_work(found.keys, [] {});
  tell_loaded(*keys_);
  return {};
}

void access::put_to_work(ring keys, std::function<void()> everywhere) {
  retired_.push_back(std::exchange(keys_, std::move(keys)));
  if (publish_) publish_(keys_, std::move(everywhere));
  else everywhere();
}

void access::sweep() {
  std::erase_if(retired_, [](const ring &old) { return old.use_count() == 1; });
}

status access::may_become(const tenancy::auth_document &found) const {
  using tenancy::auth_mode;
  const auth_mode now = keys_->mode(), next = found.keys->mode();
  const std::string &file = settings_.auth_config_file;
  if ((now == auth_mode::dynamic) != (next == auth_mode::dynamic))
    return fail(errc::denied, "api.mode cannot change between dynamic and another while the router runs; restart it", file);
  // A file that was truncated while it was written must not do that.
  if (now == auth_mode::api_key && next == auth_mode::none && !found.mode_given)
    return fail(errc::denied, "a file without api.mode would open the client API to everybody; write the mode none if that is meant", file);
  return {};
}

}  // namespace hive::apps
