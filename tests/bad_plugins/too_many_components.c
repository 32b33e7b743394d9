#include "bad.h"
static const hive_component *const list[] = {NULL};
static const hive_plugin plugin = PLUGIN(sizeof(hive_plugin), HIVE_ABI_MAJOR, HIVE_ABI_MINOR, 1000, list);
const hive_plugin *hive_plugin_entry_v0(void) { return &plugin; }
