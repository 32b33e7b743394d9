#include "bad.h"
ONE_COMPONENT(STRATEGY(HIVE_STR("bad"), HIVE_STR("{\"properties\":{\"a\":{\"minimum\":1,\"default\":0}}}"), bad_create, &bad_calls))
