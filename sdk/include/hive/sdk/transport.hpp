// A transport in C++: a class with `id`, `summary` and
//   void start(const hive_transport_setup &);                           throws failure
//   std::string listen(std::string_view address);                       the bound HOST:PORT; throws failure
//   hive_peer connect(std::string_view address);                        throws failure
//   int fd() const noexcept;
//   uint64_t pump(uint32_t max_messages, uint64_t max_ns);              next wake, monotonic ns; 0 = this turn again
//   hive_status send(hive_peer, std::span<const hive_bytes>);           HIVE_OK, HIVE_FULL, HIVE_GONE
//   void close_peer(hive_peer, uint32_t linger_ms);
//   void set_denied(std::span<const std::array<uint8_t, 32>>);
//   void stop(uint32_t linger_ms);                                      back to not started; start may follow
// Every call is [loop]; events are raised only from pump and stop.
#pragma once

#include <array>

#include "hive/sdk/core.hpp"

namespace hive::sdk {

using transport_key = std::array<uint8_t, HIVE_KEY_BYTES>;

// The host's ears. Keep it from start until stop has returned.
class transport_events {
 public:
  transport_events() = default;
  explicit transport_events(const hive_transport_events *e) noexcept : e_(e) {}
  void peer(hive_peer p, const transport_key &key, std::string_view address) const noexcept {
    e_->on_peer(e_->ctx, p, key.data(), str(address));
  }
  void message(hive_peer p, const hive_message &m) const noexcept { e_->on_message(e_->ctx, p, &m); }
  void writable(hive_peer p) const noexcept { e_->on_writable(e_->ctx, p); }
  void lost(hive_peer p, int32_t reason, std::string_view text) const noexcept { e_->on_lost(e_->ctx, p, reason, str(text)); }

 private:
  const hive_transport_events *e_ = nullptr;
};

template <class T>
concept transport_class = described<T> &&
    requires(T &t, const hive_transport_setup &s, std::string_view address, hive_peer p, std::span<const hive_bytes> parts,
             std::span<const transport_key> keys) {
      t.start(s);
      { t.listen(address) } -> std::convertible_to<std::string>;
      { t.connect(address) } -> std::same_as<hive_peer>;
      { t.fd() } -> std::same_as<int>;
      { t.pump(1u, uint64_t{}) } -> std::same_as<uint64_t>;
      { t.send(p, parts) } -> std::same_as<hive_status>;
      t.close_peer(p, 0u);
      t.set_denied(keys);
      t.stop(0u);
    };

// The component of T, for HIVE_PLUGIN.
template <transport_class T>
struct transport {
  static T &of(void *self) noexcept { return *static_cast<T *>(self); }

  static hive_status start(void *self, const hive_transport_setup *s, const hive_error_sink *err) noexcept {
    return guarded(err, [&]() -> hive_status { of(self).start(*s); return HIVE_OK; });
  }
  static hive_status listen(void *self, hive_str address, const hive_text_sink *bound, const hive_error_sink *err) noexcept {
    return guarded(err, [&]() -> hive_status {
      const std::string at = of(self).listen(view(address));
      if (bound != nullptr) bound->put(bound->ctx, str(at));
      return HIVE_OK;
    });
  }
  static hive_status connect(void *self, hive_str address, hive_peer *out, const hive_error_sink *err) noexcept {
    return guarded(err, [&]() -> hive_status { *out = of(self).connect(view(address)); return HIVE_OK; });
  }
  static int fd(void *self) noexcept { return of(self).fd(); }
  static hive_status pump(void *self, uint32_t max_messages, uint64_t max_ns, uint64_t *next_wake_ns) noexcept {
    return guarded(nullptr, [&]() -> hive_status { *next_wake_ns = of(self).pump(max_messages, max_ns); return HIVE_OK; });
  }
  static hive_status send(void *self, hive_peer p, const hive_bytes *parts, size_t count) noexcept {
    return guarded(nullptr, [&] { return of(self).send(p, {parts, count}); });
  }
  static void close_peer(void *self, hive_peer p, uint32_t linger_ms) noexcept {
    guarded(nullptr, [&]() -> hive_status { of(self).close_peer(p, linger_ms); return HIVE_OK; });
  }
  static hive_status set_denied(void *self, const uint8_t *keys, size_t count) noexcept {
    return guarded(nullptr, [&]() -> hive_status {
      of(self).set_denied(std::span(reinterpret_cast<const transport_key *>(keys), count));
      return HIVE_OK;
    });
  }
  static void stop(void *self, uint32_t linger_ms) noexcept {
    guarded(nullptr, [&]() -> hive_status { of(self).stop(linger_ms); return HIVE_OK; });
  }

  static constexpr hive_transport_vtable vtable{sizeof(hive_transport_vtable), 0,     &start,      &listen,     &connect, &fd,
                                                &pump,                         &send, &close_peer, &set_denied, &stop};
  static constexpr hive_component component = detail::component<T>(HIVE_KIND_TRANSPORT, &vtable);
};

}  // namespace hive::sdk
