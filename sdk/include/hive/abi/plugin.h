/* What one shared library offers: constant data behind its single exported function. */
#ifndef HIVE_ABI_PLUGIN_H
#define HIVE_ABI_PLUGIN_H

#include "hive/abi/engine.h"
#include "hive/abi/gate.h"
#include "hive/abi/storage.h"
#include "hive/abi/strategy.h"
#include "hive/abi/transport.h"

HIVE_BEGIN

enum { HIVE_KIND_STRATEGY = 1, HIVE_KIND_GATE = 2, HIVE_KIND_STORAGE = 3, HIVE_KIND_TRANSPORT = 4, HIVE_KIND_ENGINE = 5 };

/* What the host must fill in hive_request for this component. */
enum { HIVE_NEEDS_PREFIX_BLOCKS = 1u << 0, HIVE_NEEDS_HEADERS = 1u << 1 };

typedef struct hive_config {
  uint32_t struct_size;
  uint32_t reserved0;
  hive_str instance;     /* its name in logs and the admin API */
  hive_str json;         /* valid against config_schema, defaults filled in; "{}" when empty */
  const void *setup;     /* gate: hive_gate_setup; else null */
} hive_config;

typedef struct hive_component {
  uint32_t struct_size;
  uint32_t kind;         /* HIVE_KIND_*; an unknown kind is listed, not used */
  uint32_t needs;        /* HIVE_NEEDS_* */
  uint32_t reserved0;
  hive_str id;           /* [a-z0-9][a-z0-9_-]*, at most 64; unique within its kind */
  hive_str version;
  hive_str summary;
  hive_str config_schema; /* JSON Schema draft-07, the subset in docs/abi/rules.md */
  /* [pure] Optional: what a schema cannot say. */
  hive_status (*check)(const hive_config *config, const hive_error_sink *err) HIVE_NOEXCEPT;
  /* [control] Null only for a gate without `evaluate`. Writes *self on HIVE_OK. `host` outlives the instance. */
  hive_status (*create)(const hive_host *host, const hive_config *config, const hive_error_sink *err, void **self) HIVE_NOEXCEPT;
  void (*destroy)(void *self) HIVE_NOEXCEPT; /* [control] */
  const void *vtable;    /* hive_<kind>_vtable */
} hive_component;

typedef struct hive_plugin {
  uint32_t struct_size;
  uint16_t abi_major;    /* HIVE_ABI_MAJOR and _MINOR it was built with */
  uint16_t abi_minor;
  uint32_t component_count; /* 1..256 */
  uint32_t reserved0;
  hive_str id;
  hive_str version;
  hive_str vendor;
  hive_str license;
  const hive_component *const *components;
} hive_plugin;

/* The only exported symbol. Pure: same answer every time, no effect; null refuses to load. */
#define HIVE_PLUGIN_ENTRY hive_plugin_entry_v0
#define HIVE_PLUGIN_ENTRY_NAME "hive_plugin_entry_v0"
typedef const hive_plugin *(*hive_plugin_entry_fn)(void);
HIVE_EXPORT const hive_plugin *hive_plugin_entry_v0(void);

HIVE_END
#endif
