/* A strategy in plain C: load plus a penalty for latency. cost = load + srtt_ms / 1000 * weight; ties take turns.
 * Shows all that the C++ layer hides: tables, thread tags, reading a number out of the configuration, seeded ties. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hive/abi.h"

struct weighted {
  hive_column load;
  hive_column srtt_ms;
  double weight;
};

/* The host hands over canonical JSON that obeys the schema below, so `"weight":` stands in it once. */
static double read_weight(hive_str json) {
  static const char key[] = "\"weight\":";
  char text[512];
  const char *at;
  if (json.len >= sizeof text) return 1;
  memcpy(text, json.ptr, json.len);
  text[json.len] = '\0';
  at = strstr(text, key);
  return at == NULL ? 1 : strtod(at + sizeof key - 1, NULL);
}

static hive_status create(const hive_host *host, const hive_config *config, const hive_error_sink *err, void **self) {
  static const hive_str load = HIVE_STR("load"), srtt_ms = HIVE_STR("srtt_ms"), words = HIVE_STR("out of memory");
  struct weighted *w = malloc(sizeof *w);
  if (w == NULL) {
    if (err != NULL) err->set(err->ctx, HIVE_E_EXHAUSTED, words);
    return HIVE_E_EXHAUSTED;
  }
  w->load = host->column(host, load);
  w->srtt_ms = host->column(host, srtt_ms);
  w->weight = read_weight(config->json);
  *self = w;
  return HIVE_OK;
}

static void destroy(void *self) { free(self); }

static double cost_of(const struct weighted *w, const double *load, const double *srtt, uint32_t i) {
  const double a = load == NULL || isnan(load[i]) ? HUGE_VAL : load[i];
  const double b = srtt == NULL || isnan(srtt[i]) ? 0 : srtt[i];
  return a + b / 1000 * w->weight;
}

/* [pool] Two passes: the least cost and how many share it, then the (tie_seed % ties)-th of those. */
static hive_status choose(void *self, const hive_request *request, const hive_pool *pool, hive_choice *choice) {
  const struct weighted *w = self;
  const double *load = hive_column_at(pool, w->load);
  const double *srtt = hive_column_at(pool, w->srtt_ms);
  double best = HUGE_VAL;
  uint64_t ties = 0, turn;
  uint32_t k;
  for (k = 0; k < pool->candidate_count; ++k) {
    const double cost = cost_of(w, load, srtt, pool->candidates[k]);
    if (ties == 0 || cost < best) {
      best = cost;
      ties = 1;
    } else if (cost == best) {
      ++ties;
    }
  }
  if (ties == 0) return HIVE_NO_CHOICE;
  turn = request->tie_seed % ties;
  for (k = 0; k < pool->candidate_count; ++k) {
    if (cost_of(w, load, srtt, pool->candidates[k]) == best && turn-- == 0) {
      choice->index = pool->candidates[k];
      return HIVE_OK;
    }
  }
  return HIVE_E_INTERNAL;
}

static const hive_strategy_vtable calls = {sizeof(hive_strategy_vtable), 0, choose, NULL, NULL, NULL};

static const hive_component weighted_component = {
    sizeof(hive_component),
    HIVE_KIND_STRATEGY,
    0,
    0,
    HIVE_STR("weighted-c"),
    HIVE_STR("1.0.0"),
    HIVE_STR("load plus a weighted share of the latency"),
    HIVE_STR("{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
             "\"weight\":{\"type\":\"number\",\"minimum\":0,\"maximum\":1000,\"default\":1}}}"),
    NULL,
    create,
    destroy,
    &calls};

static const hive_component *const components[] = {&weighted_component};

static const hive_plugin plugin = {sizeof(hive_plugin),
                                   HIVE_ABI_MAJOR,
                                   HIVE_ABI_MINOR,
                                   1,
                                   0,
                                   HIVE_STR("strategy_weighted_c"),
                                   HIVE_STR("1.0.0"),
                                   HIVE_STR("hivenet"),
                                   HIVE_STR("Apache-2.0"),
                                   components};

const hive_plugin *hive_plugin_entry_v0(void) { return &plugin; }
