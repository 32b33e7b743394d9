#include "bad.h"
int nobody_defines_this(void);
static hive_status lazy(void *self, const hive_request *request, const hive_pool *pool, hive_choice *choice) {
  (void)self, (void)request, (void)pool, (void)choice;
  return nobody_defines_this();
}
static const hive_strategy_vtable table = {sizeof(hive_strategy_vtable), 0, lazy, NULL, NULL, NULL};
ONE_COMPONENT(STRATEGY(HIVE_STR("bad"), ANY_SCHEMA, bad_create, &table))
