// The component `memory` of kind storage.
#include "hive/abi/plugin.h"
#include "memory_store.hpp"

#include <simdjson.h>

#include <new>

namespace {

using hive::storage_memory::store;
namespace sdk = hive::sdk;

store &of(void *self) { return *static_cast<store *>(self); }

// Exceptions (only bad_alloc can happen) stop at the ABI.
template <class F>
hive_status guarded(F &&f) noexcept {
  try {
    return f();
  } catch (const std::bad_alloc &) {
    return HIVE_E_EXHAUSTED;
  } catch (...) {
    return HIVE_E_INTERNAL;
  }
}

hive_status create(const hive_host *host, const hive_config *config, const hive_error_sink *err, void **self) noexcept {
  return guarded([&] {
    std::int64_t max_mb = 256;
    if (config && config->json.len) {
      simdjson::dom::parser parser;
      simdjson::dom::object object;
      const simdjson::padded_string json(sdk::view(config->json));
      if (parser.parse(json).get(object)) return sdk::refuse(err, HIVE_E_CONFIG, "the configuration is not a JSON object");
      const auto field = object["max_mb"];
      if (!field.error() && (field.get(max_mb) || max_mb < 1 || max_mb > 1'048'576))
        return sdk::refuse(err, HIVE_E_CONFIG, "max_mb: a whole number of MiB from 1 to 1048576 is needed");
    }
    *self = new store(host, static_cast<std::uint64_t>(max_mb) << 20);
    return static_cast<hive_status>(HIVE_OK);
  });
}

void destroy(void *self) noexcept { delete static_cast<store *>(self); }

const hive_storage_vtable vtable = {
    sizeof(hive_storage_vtable), 0,
    [](void *self, const hive_error_sink *err) noexcept { return guarded([&] { return of(self).open(err); }); },
    [](void *self) noexcept { of(self).close(); },
    [](void *self, hive_bytes key, uint64_t deadline, const hive_visitor *visitor) noexcept {
      return guarded([&] { return of(self).get(key, deadline, *visitor); });
    },
    [](void *self, hive_bytes prefix, uint64_t deadline, const hive_visitor *visitor) noexcept {
      return guarded([&] { return of(self).scan(prefix, deadline, *visitor); });
    },
    [](void *self, hive_write *const *ops, size_t count, uint64_t deadline, const hive_error_sink *err) noexcept {
      return guarded([&] { return of(self).write(ops, count, deadline, err); });
    },
    [](void *self, uint64_t deadline) noexcept { return guarded([&] { return of(self).sweep(deadline); }); },
    [](void *self, hive_storage_stats *out) noexcept { return guarded([&] { return of(self).stats(out); }); }};

const hive_component component = {
    sizeof(hive_component), HIVE_KIND_STORAGE, 0, 0, HIVE_STR("memory"), HIVE_STR("0.1.0"),
    HIVE_STR("records in this process's memory; nothing survives a restart"),
    HIVE_STR(R"({"type":"object","additionalProperties":false,"properties":{"max_mb":{"type":"integer","minimum":1,"maximum":1048576,"default":256}}})"),
    nullptr, create, destroy, &vtable};

const hive_component *const components[] = {&component};
const hive_plugin plugin = {sizeof(hive_plugin), HIVE_ABI_MAJOR, HIVE_ABI_MINOR, 1, 0, HIVE_STR("storage_memory"),
                            HIVE_STR("0.1.0"), HIVE_STR("Hivenet Router"), HIVE_STR("Apache-2.0"), components};

}  // namespace

const hive_plugin *hive_plugin_entry_v0(void) { return &plugin; }
