#include "bad.h"
static const hive_strategy_vtable empty = {sizeof(hive_strategy_vtable), 0, NULL, NULL, NULL, NULL};
ONE_COMPONENT(STRATEGY(HIVE_STR("bad"), ANY_SCHEMA, bad_create, &empty))
