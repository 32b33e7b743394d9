// A storage backend in C++: a class with `id`, `summary` and
//   void open();                                                                    throws failure
//   void close() noexcept;                                                          idempotent
//   hive_status get(std::string_view key, uint64_t deadline_ns, const visitor &);   HIVE_OK or HIVE_NOT_FOUND
//   hive_status scan(std::string_view prefix, uint64_t deadline_ns, const visitor &);
//   void write(std::span<hive_write *const>, uint64_t deadline_ns);                 all or nothing; throws failure
// and optionally
//   void sweep(uint64_t deadline_ns);
//   void stats(hive_storage_stats &);                                               comes zeroed but for its size
// Every call is [storage]. Keys and values are bytes in a string_view.
#pragma once

#include "hive/sdk/core.hpp"

namespace hive::sdk {

class visitor {
 public:
  explicit visitor(const hive_visitor *v) noexcept : v_(v) {}
  // False = the caller has seen enough.
  bool operator()(std::string_view key, std::string_view value, uint64_t expires_unix_ms) const noexcept {
    return v_->visit(v_->ctx, bytes(key), bytes(value), expires_unix_ms) == 0;
  }

 private:
  const hive_visitor *v_;
};

template <class T>
concept storage_class = described<T> &&
    requires(T &t, std::string_view s, uint64_t deadline, const visitor &v, std::span<hive_write *const> ops) {
      t.open();
      t.close();
      { t.get(s, deadline, v) } -> std::same_as<hive_status>;
      { t.scan(s, deadline, v) } -> std::same_as<hive_status>;
      t.write(ops, deadline);
    };

// The component of T, for HIVE_PLUGIN.
template <storage_class T>
struct storage {
  static T &of(void *self) noexcept { return *static_cast<T *>(self); }

  static hive_status open(void *self, const hive_error_sink *err) noexcept {
    return guarded(err, [&]() -> hive_status { of(self).open(); return HIVE_OK; });
  }
  static void close(void *self) noexcept {
    guarded(nullptr, [&]() -> hive_status { of(self).close(); return HIVE_OK; });
  }
  static hive_status get(void *self, hive_bytes key, uint64_t deadline, const hive_visitor *v) noexcept {
    return guarded(nullptr, [&] { return of(self).get(view(key), deadline, visitor(v)); });
  }
  static hive_status scan(void *self, hive_bytes prefix, uint64_t deadline, const hive_visitor *v) noexcept {
    return guarded(nullptr, [&] { return of(self).scan(view(prefix), deadline, visitor(v)); });
  }
  static hive_status write(void *self, hive_write *const *ops, size_t count, uint64_t deadline,
                           const hive_error_sink *err) noexcept {
    return guarded(err, [&]() -> hive_status { of(self).write({ops, count}, deadline); return HIVE_OK; });
  }
  static hive_status sweep(void *self, uint64_t deadline) noexcept {
    return guarded(nullptr, [&]() -> hive_status { of(self).sweep(deadline); return HIVE_OK; });
  }
  // Fills only what the caller's struct can hold.
  static hive_status stats(void *self, hive_storage_stats *out) noexcept {
    return guarded(nullptr, [&]() -> hive_status {
      if (out->struct_size < sizeof(hive_storage_stats)) return HIVE_E_ARGUMENT;
      const uint32_t size = out->struct_size;
      *out = hive_storage_stats{};
      out->struct_size = size;
      of(self).stats(*out);
      return HIVE_OK;
    });
  }

  static constexpr hive_storage_vtable make() {
    hive_storage_vtable v{};
    v.struct_size = sizeof v;
    v.open = &open;
    v.close = &close;
    v.get = &get;
    v.scan = &scan;
    v.write = &write;
    if constexpr (requires(T &t) { t.sweep(uint64_t{}); }) v.sweep = &sweep;
    if constexpr (requires(T &t, hive_storage_stats &s) { t.stats(s); }) v.stats = &stats;
    return v;
  }
  static constexpr hive_storage_vtable vtable = make();
  static constexpr hive_component component = detail::component<T>(HIVE_KIND_STORAGE, &vtable);
};

}  // namespace hive::sdk
