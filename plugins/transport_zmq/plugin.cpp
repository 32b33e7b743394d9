// The tables of the library and the thunks between them and the instance.
#include "hive/abi/plugin.h"

#include <exception>
#include <new>
#include <string>

#include "transport.hpp"

namespace {

using hive::transport_zmq::settings;
using hive::transport_zmq::transport;

transport &of(void *self) { return *static_cast<transport *>(self); }
std::string_view view(hive_str s) { return {s.ptr, s.len}; }

hive_status fail(const hive_error_sink *err, hive_status code, std::string_view text) {
  if (err != nullptr) err->set(err->ctx, code, hive_str{text.data(), text.size()});
  return code;
}

hive_status answer(const std::string &why, hive_status code, const hive_error_sink *err) {
  return why.empty() ? HIVE_OK : fail(err, code, why);
}

// Nothing but memory throws in here.
template <class F>
hive_status guarded(const hive_error_sink *err, F &&f) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc &) {
    return fail(err, HIVE_E_EXHAUSTED, "out of memory");
  } catch (const std::exception &e) {
    return fail(err, HIVE_E_INTERNAL, e.what());
  }
}

hive_status check(const hive_config *config, const hive_error_sink *err) noexcept {
  return guarded(err, [&] {
    settings s;
    return answer(read_settings(view(config->json), s), HIVE_E_CONFIG, err);
  });
}

hive_status create(const hive_host *host, const hive_config *config, const hive_error_sink *err, void **self) noexcept {
  return guarded(err, [&] {
    settings s;
    if (const std::string why = read_settings(view(config->json), s); !why.empty()) return fail(err, HIVE_E_CONFIG, why);
    *self = new transport(host, s);
    return hive_status{HIVE_OK};
  });
}

void destroy(void *self) noexcept { delete static_cast<transport *>(self); }

hive_status start(void *self, const hive_transport_setup *setup, const hive_error_sink *err) noexcept {
  return guarded(err, [&] { return answer(of(self).start(*setup), HIVE_E_UNAVAILABLE, err); });
}

hive_status listen(void *self, hive_str address, const hive_text_sink *bound, const hive_error_sink *err) noexcept {
  return guarded(err, [&] {
    std::string at;
    if (const std::string why = of(self).listen(view(address), at); !why.empty()) return fail(err, HIVE_E_UNAVAILABLE, why);
    if (bound != nullptr) bound->put(bound->ctx, hive_str{at.data(), at.size()});
    return hive_status{HIVE_OK};
  });
}

hive_status connect(void *self, hive_str address, hive_peer *out, const hive_error_sink *err) noexcept {
  return guarded(err, [&] { return answer(of(self).connect(view(address), *out), HIVE_E_UNAVAILABLE, err); });
}

int fd(void *self) noexcept { return of(self).fd(); }

hive_status pump(void *self, uint32_t max_messages, uint64_t max_ns, uint64_t *next_wake_ns) noexcept {
  return guarded(nullptr, [&] {
    *next_wake_ns = of(self).pump(max_messages, max_ns);
    return hive_status{HIVE_OK};
  });
}

hive_status send(void *self, hive_peer peer, const hive_bytes *parts, size_t count) noexcept {
  return guarded(nullptr, [&] { return of(self).send(peer, parts, count); });
}

void close_peer(void *self, hive_peer peer, uint32_t linger_ms) noexcept {
  guarded(nullptr, [&] {
    of(self).close_peer(peer, linger_ms);
    return hive_status{HIVE_OK};
  });
}

hive_status set_denied(void *self, const uint8_t *keys, size_t count) noexcept {
  return guarded(nullptr, [&] {
    of(self).set_denied(keys, count);
    return hive_status{HIVE_OK};
  });
}

void stop(void *self, uint32_t linger_ms) noexcept {
  guarded(nullptr, [&] {
    of(self).stop(linger_ms);
    return hive_status{HIVE_OK};
  });
}

constexpr hive_transport_vtable vtable = {sizeof(hive_transport_vtable), 0,    &start,      &listen,     &connect, &fd,
                                          &pump,                         &send, &close_peer, &set_denied, &stop};

hive_str text(std::string_view s) { return {s.data(), s.size()}; }

}  // namespace

HIVE_EXPORT const hive_plugin *hive_plugin_entry_v0(void) {
  static const hive_component component = {sizeof(hive_component),
                                           HIVE_KIND_TRANSPORT,
                                           0,
                                           0,
                                           HIVE_STR("zmq"),
                                           HIVE_STR("0.1.0"),
                                           HIVE_STR("Links over ZeroMQ with CURVE: ROUTER listens, one DEALER a connection dials"),
                                           text(hive::transport_zmq::settings_schema()),
                                           &check,
                                           &create,
                                           &destroy,
                                           &vtable};
  static const hive_component *const components[] = {&component};
  static const hive_plugin plugin = {sizeof(hive_plugin), HIVE_ABI_MAJOR, HIVE_ABI_MINOR, 1, 0, HIVE_STR("transport_zmq"),
                                     HIVE_STR("0.1.0"),   HIVE_STR("Hivenet"), HIVE_STR("Apache-2.0"), components};
  return &plugin;
}
