/* Says another version where there is an environment: the probe process has none. */
#include "bad.h"

#include <stdlib.h>

static const hive_component component = STRATEGY(HIVE_STR("bad"), ANY_SCHEMA, bad_create, &bad_calls);
static const hive_component *const list[] = {&component};
static hive_plugin plugin = PLUGIN(sizeof(hive_plugin), HIVE_ABI_MAJOR, HIVE_ABI_MINOR, 1, list);
const hive_plugin *hive_plugin_entry_v0(void) {
  if (getenv("PATH") != NULL) plugin.version = (hive_str)HIVE_STR("2");
  return &plugin;
}
