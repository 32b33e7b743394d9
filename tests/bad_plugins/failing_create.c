#include "bad.h"
static hive_status refuse(const hive_host *host, const hive_config *config, const hive_error_sink *err, void **self) {
  static const hive_str words = HIVE_STR("the moon is in the wrong phase");
  (void)host, (void)config, (void)self;
  err->set(err->ctx, HIVE_E_CONFIG, words);
  return HIVE_E_CONFIG;
}
ONE_COMPONENT(STRATEGY(HIVE_STR("failing"), ANY_SCHEMA, refuse, &bad_calls))
