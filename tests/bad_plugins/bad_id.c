#include "bad.h"
ONE_COMPONENT(STRATEGY(HIVE_STR("Bad Id!"), ANY_SCHEMA, bad_create, &bad_calls))
