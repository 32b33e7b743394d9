/* A component of a kind that a later host may know, beside one of today. */
#include "bad.h"

static const hive_component later = {sizeof(hive_component), 99, 0, 0, HIVE_STR("later"), HIVE_STR("1"), HIVE_STR("of another time"),
                                     {NULL, 0}, NULL, NULL, NULL, NULL};
static const hive_component today = STRATEGY(HIVE_STR("today"), ANY_SCHEMA, bad_create, &bad_calls);
static const hive_component *const list[] = {&later, &today};
static const hive_plugin plugin = PLUGIN(sizeof(hive_plugin), HIVE_ABI_MAJOR, HIVE_ABI_MINOR, 2, list);
const hive_plugin *hive_plugin_entry_v0(void) { return &plugin; }
