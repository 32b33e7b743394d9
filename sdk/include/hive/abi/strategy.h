/* A strategy picks one agent among the candidates that passed every gate. One instance per (policy step, pool). */
#ifndef HIVE_ABI_STRATEGY_H
#define HIVE_ABI_STRATEGY_H

#include "hive/abi/views.h"

HIVE_BEGIN

typedef struct hive_choice {
  uint32_t struct_size;
  uint32_t index;        /* out: a slot of the pool, one of its candidates */
  double *scores;        /* host buffer of score_count = pool->count, lower is better; optional output, free scratch */
  uint32_t score_count;
  uint32_t scored;       /* out: nonzero when scores were filled for every candidate */
} hive_choice;

typedef struct hive_strategy_vtable {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [pool] Required. HIVE_OK with choice->index, or HIVE_NO_CHOICE. Changes nothing: explain calls it too. */
  hive_status (*select)(void *self, const hive_request *request, const hive_pool *pool, hive_choice *choice) HIVE_NOEXCEPT;
  /* [pool] Optional. The lease was made. */
  void (*on_choice)(void *self, const hive_request *request, const hive_pool *pool, uint32_t index) HIVE_NOEXCEPT;
  /* [pool] Optional. */
  void (*on_outcome)(void *self, const hive_outcome *outcome) HIVE_NOEXCEPT;
  /* [pool] Optional. Runs before the first call with a new epoch; may cost O(count). */
  void (*on_pool)(void *self, const hive_pool *pool) HIVE_NOEXCEPT;
} hive_strategy_vtable;

HIVE_END
#endif
