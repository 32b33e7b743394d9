/* A strategy that would be fine, for each file beside this one to spoil in one place. */
#ifndef HIVE_BAD_H
#define HIVE_BAD_H

#include "hive/abi.h"

#define ANY_SCHEMA HIVE_STR("{\"type\":\"object\"}")

static hive_status bad_choose(void *self, const hive_request *request, const hive_pool *pool, hive_choice *choice) HIVE_NOEXCEPT {
  (void)self, (void)request, (void)pool, (void)choice;
  return HIVE_NO_CHOICE;
}
static hive_status bad_create(const hive_host *host, const hive_config *config, const hive_error_sink *err,
                              void **self) HIVE_NOEXCEPT {
  static int one;
  (void)host, (void)config, (void)err;
  *self = &one;
  return HIVE_OK;
}
static void bad_destroy(void *self) HIVE_NOEXCEPT { (void)self; }

static const hive_strategy_vtable bad_calls = {sizeof(hive_strategy_vtable), 0, bad_choose, NULL, NULL, NULL};

#define STRATEGY(id, schema, create, table) \
  {sizeof(hive_component), HIVE_KIND_STRATEGY, 0, 0, id, HIVE_STR("1"), HIVE_STR("bad"), schema, NULL, create, bad_destroy, table}
#define GATE(id, table) \
  {sizeof(hive_component), HIVE_KIND_GATE, 0, 0, id, HIVE_STR("1"), HIVE_STR("bad"), ANY_SCHEMA, NULL, NULL, NULL, table}
#define PLUGIN(size, major, minor, count, list) \
  {size, major, minor, count, 0, HIVE_STR("bad"), HIVE_STR("1"), HIVE_STR("test"), HIVE_STR("none"), list}

#define ONE_COMPONENT(...)                                                                                       \
  static const hive_component component = __VA_ARGS__;                                                           \
  static const hive_component *const list[] = {&component};                                                      \
  static const hive_plugin plugin = PLUGIN(sizeof(hive_plugin), HIVE_ABI_MAJOR, HIVE_ABI_MINOR, 1, list);        \
  const hive_plugin *hive_plugin_entry_v0(void) { return &plugin; }

#define GOOD ONE_COMPONENT(STRATEGY(HIVE_STR("bad"), ANY_SCHEMA, bad_create, &bad_calls))

/* Keeps what a file does not use quiet. */
static inline void bad_use(void) { (void)bad_create, (void)bad_destroy, (void)bad_calls; }

#endif
