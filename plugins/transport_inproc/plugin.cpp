// The tables of the library and the thunks between them and the instance.
#include "hive/abi/plugin.h"

#include <charconv>
#include <exception>
#include <new>
#include <string>

#include "transport.hpp"

namespace {

using hive::transport_inproc::transport;

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

constexpr std::string_view schema =
    R"({"type":"object","additionalProperties":false,"properties":{"hwm":{"type":"integer","minimum":1,"maximum":1000000,"default":65536}}})";

// The block has passed the schema: one optional number.
std::string read_hwm(std::string_view json, uint32_t &out) {
  out = 65536;
  const size_t at = json.find("\"hwm\"");
  if (at == std::string_view::npos) return {};
  const size_t from = json.find_first_not_of(" \t\r\n:", at + 5);
  const std::string_view digits = json.substr(from == std::string_view::npos ? json.size() : from);
  const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (r.ec != std::errc() || out < 1 || out > 1000000) return "hwm must be a whole number from 1 to 1000000";
  return {};
}

hive_status check(const hive_config *config, const hive_error_sink *err) noexcept {
  return guarded(err, [&] {
    uint32_t hwm;
    return answer(read_hwm(view(config->json), hwm), HIVE_E_CONFIG, err);
  });
}

hive_status create(const hive_host *host, const hive_config *config, const hive_error_sink *err, void **self) noexcept {
  return guarded(err, [&] {
    uint32_t hwm;
    if (const std::string why = read_hwm(view(config->json), hwm); !why.empty()) return fail(err, HIVE_E_CONFIG, why);
    *self = new transport(host, hwm);
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
                                           HIVE_STR("inproc"),
                                           HIVE_STR("0.1.0"),
                                           HIVE_STR("Links inside one process, by pointer"),
                                           text(schema),
                                           &check,
                                           &create,
                                           &destroy,
                                           &vtable};
  static const hive_component *const components[] = {&component};
  static const hive_plugin plugin = {sizeof(hive_plugin), HIVE_ABI_MAJOR, HIVE_ABI_MINOR, 1, 0, HIVE_STR("transport_inproc"),
                                     HIVE_STR("0.1.0"),   HIVE_STR("Hivenet"), HIVE_STR("Apache-2.0"), components};
  return &plugin;
}
