#include "bad.h"
static const hive_plugin plugin = PLUGIN(sizeof(hive_plugin), HIVE_ABI_MAJOR, HIVE_ABI_MINOR, 0, NULL);
const hive_plugin *hive_plugin_entry_v0(void) { return &plugin; }
