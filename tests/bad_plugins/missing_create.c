#include "bad.h"
ONE_COMPONENT(STRATEGY(HIVE_STR("bad"), ANY_SCHEMA, NULL, &bad_calls))
