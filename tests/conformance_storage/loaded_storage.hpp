// A storage backend loaded from its library as the host would, with a host that keeps its log lines, and a directory that
// goes away with the test. One thread.
#pragma once

#include "hive/abi/plugin.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <stdlib.h>
#include <time.h>

namespace hive::conformance {

inline std::string text(hive_str s) { return {s.ptr, s.len}; }
inline std::string text(hive_bytes b) { return {reinterpret_cast<const char *>(b.ptr), b.len}; }
inline hive_str str(std::string_view s) { return {s.data(), s.size()}; }
inline hive_bytes bytes(std::string_view s) { return {reinterpret_cast<const uint8_t *>(s.data()), s.size()}; }

inline uint64_t unix_ms() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000 + static_cast<uint64_t>(t.tv_nsec) / 1000000;
}

class temporary_directory {
 public:
  temporary_directory() {
    std::string pattern = testing::TempDir() + "/hive-storage-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~temporary_directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  temporary_directory(const temporary_directory &) = delete;
  temporary_directory &operator=(const temporary_directory &) = delete;
  const std::string &path() const { return path_; }

 private:
  std::string path_;
};

struct stored {
  std::string key, value;
  uint64_t expires = 0;
  bool operator==(const stored &) const = default;
};

// One operation that owns its bytes.
struct operation {
  operation(uint32_t op, std::string key, std::string value = {}, uint64_t expires = 0, int64_t delta = 0)
      : key_(std::move(key)), value_(std::move(value)), raw{sizeof(hive_write), op, {}, {}, expires, delta, 0} {}
  std::string key_, value_;
  hive_write raw;
};
inline operation put(std::string key, std::string value, uint64_t expires = 0) { return {HIVE_WRITE_PUT, std::move(key), std::move(value), expires}; }
inline operation erase(std::string key) { return {HIVE_WRITE_ERASE, std::move(key)}; }
inline operation add(std::string key, int64_t delta, uint64_t expires = 0) { return {HIVE_WRITE_ADD, std::move(key), {}, expires, delta}; }

class loaded_storage {
 public:
  loaded_storage(const std::string &library, const std::string &json) {
    void *handle = dlopen((std::string(HIVE_PLUGIN_DIR) + "/" + library + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle, nullptr) << dlerror();
    component_ = reinterpret_cast<hive_plugin_entry_fn>(dlsym(handle, HIVE_PLUGIN_ENTRY_NAME))()->components[0];
    EXPECT_EQ(component_->kind, static_cast<uint32_t>(HIVE_KIND_STORAGE));
    table_ = static_cast<const hive_storage_vtable *>(component_->vtable);
    host_.struct_size = sizeof host_;
    host_.ctx = this;
    host_.log = [](const hive_host *h, int32_t, hive_str line) noexcept { static_cast<loaded_storage *>(h->ctx)->log.push_back(text(line)); };
    host_.now_ns = [](const hive_host *) noexcept {
      return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    };
    host_.metric_register = [](const hive_host *h, int32_t, hive_str name, hive_str) noexcept {
      auto &names = static_cast<loaded_storage *>(h->ctx)->metrics_;
      names.push_back(text(name));
      return static_cast<hive_metric>(names.size());
    };
    host_.metric_add = [](const hive_host *h, hive_metric m, double) noexcept {
      auto &self = *static_cast<loaded_storage *>(h->ctx);
      ++self.metric_adds[self.metrics_.at(static_cast<size_t>(m) - 1)];
    };
    sink_ = {sizeof sink_, 0, this, [](void *c, hive_status, hive_str why) noexcept { static_cast<loaded_storage *>(c)->words = text(why); }};
    const hive_config config{sizeof(hive_config), 0, HIVE_STR("test"), str(json), nullptr};
    created = component_->create(&host_, &config, &sink_, &self_);
  }
  ~loaded_storage() {
    if (self_) component_->destroy(self_);
  }
  loaded_storage(const loaded_storage &) = delete;
  loaded_storage &operator=(const loaded_storage &) = delete;

  hive_status open() { return words.clear(), table_->open(self_, &sink_); }
  void close() { table_->close(self_); }
  hive_status write(std::vector<operation> ops, std::vector<int64_t> *results = nullptr, uint64_t deadline = 0) {
    std::vector<hive_write *> raw;
    for (auto &o : ops) {
      o.raw.key = bytes(o.key_);
      o.raw.value = bytes(o.value_);
      raw.push_back(&o.raw);
    }
    words.clear();
    const auto s = table_->write(self_, raw.data(), raw.size(), deadline, &sink_);
    if (results) {
      results->clear();
      for (const auto &o : ops) results->push_back(o.raw.result);
    }
    return s;
  }
  hive_status read(std::string_view key, std::optional<stored> &out, uint64_t deadline = 0) {
    out.reset();
    hive_visitor v{sizeof v, 0, &out, [](void *c, hive_bytes k, hive_bytes value, uint64_t expires) noexcept -> int32_t {
                     *static_cast<std::optional<stored> *>(c) = stored{text(k), text(value), expires};
                     return 0;
                   }};
    return table_->get(self_, bytes(key), deadline, &v);
  }
  std::optional<std::string> value(std::string_view key) {
    std::optional<stored> out;
    const auto s = read(key, out);
    EXPECT_EQ(s, out ? HIVE_OK : HIVE_NOT_FOUND);
    return out ? std::optional(out->value) : std::nullopt;
  }
  std::vector<stored> scan(std::string_view prefix, size_t limit = SIZE_MAX, hive_status *status = nullptr, uint64_t deadline = 0) {
    struct state { std::vector<stored> seen; size_t limit; } st{{}, limit};
    hive_visitor v{sizeof v, 0, &st, [](void *c, hive_bytes k, hive_bytes value, uint64_t expires) noexcept -> int32_t {
                     auto &s = *static_cast<state *>(c);
                     s.seen.push_back({text(k), text(value), expires});
                     return s.seen.size() >= s.limit;
                   }};
    const auto s = table_->scan(self_, bytes(prefix), deadline, &v);
    if (status) *status = s;
    return st.seen;
  }
  std::vector<std::string> keys(std::string_view prefix) {
    std::vector<std::string> out;
    for (auto &r : scan(prefix)) out.push_back(r.key);
    return out;
  }
  hive_storage_stats stats() {
    hive_storage_stats s{};
    s.struct_size = sizeof s;
    EXPECT_EQ(table_->stats(self_, &s), HIVE_OK);
    return s;
  }
  hive_status sweep(uint64_t deadline = 0) { return table_->sweep(self_, deadline); }
  const hive_storage_vtable &table() const { return *table_; }
  void *self() const { return self_; }

  hive_status created = HIVE_E_INTERNAL;
  std::string words;  // of the last refusal
  std::vector<std::string> log;
  std::map<std::string, int> metric_adds;  // by the metric's name

 private:
  hive_host host_{};
  std::vector<std::string> metrics_;
  hive_error_sink sink_{};
  const hive_component *component_ = nullptr;
  const hive_storage_vtable *table_ = nullptr;
  void *self_ = nullptr;
};

}  // namespace hive::conformance
