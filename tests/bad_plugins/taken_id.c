#include "bad.h"
ONE_COMPONENT(STRATEGY(HIVE_STR("least-loaded"), ANY_SCHEMA, bad_create, &bad_calls))
