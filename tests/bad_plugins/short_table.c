#include "bad.h"
static const hive_strategy_vtable small = {16, 0, bad_choose, NULL, NULL, NULL};
ONE_COMPONENT(STRATEGY(HIVE_STR("bad"), ANY_SCHEMA, bad_create, &small))
