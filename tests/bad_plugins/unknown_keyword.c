#include "bad.h"
ONE_COMPONENT(STRATEGY(HIVE_STR("bad"), HIVE_STR("{\"type\":\"object\",\"properties\":{\"a\":{\"pattern\":\"^x\"}}}"), bad_create, &bad_calls))
