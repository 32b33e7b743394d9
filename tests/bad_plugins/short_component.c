#include "bad.h"
ONE_COMPONENT({24, HIVE_KIND_STRATEGY, 0, 0, HIVE_STR("bad"), HIVE_STR("1"), HIVE_STR("bad"), ANY_SCHEMA, NULL, bad_create, bad_destroy, &bad_calls})
