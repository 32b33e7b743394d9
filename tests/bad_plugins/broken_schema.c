#include "bad.h"
ONE_COMPONENT(STRATEGY(HIVE_STR("bad"), HIVE_STR("{\"type\":"), bad_create, &bad_calls))
