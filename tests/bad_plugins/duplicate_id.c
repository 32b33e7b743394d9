#include "bad.h"
static const hive_component component = STRATEGY(HIVE_STR("bad"), ANY_SCHEMA, bad_create, &bad_calls);
static const hive_component *const list[] = {&component, &component};
static const hive_plugin plugin = PLUGIN(sizeof(hive_plugin), HIVE_ABI_MAJOR, HIVE_ABI_MINOR, 2, list);
const hive_plugin *hive_plugin_entry_v0(void) { return &plugin; }
