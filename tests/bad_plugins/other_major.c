#include "bad.h"
static const hive_plugin plugin = PLUGIN(sizeof(hive_plugin), HIVE_ABI_MAJOR + 3, HIVE_ABI_MINOR, 1, NULL);
const hive_plugin *hive_plugin_entry_v0(void) { return &plugin; }
