#include "bad.h"
const hive_plugin *hive_plugin_entry_v0(void) { return NULL; }
