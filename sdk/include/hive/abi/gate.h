/* A gate keeps agents out by rules of a policy. It declares the policy fields it serves; the kernel evaluates threshold
 * rules itself (operators, missing values, hysteresis, age), so a gate of thresholds only has no code and no instance.
 * `evaluate` is called only for a step that uses one of the gate's custom rules. */
#ifndef HIVE_ABI_GATE_H
#define HIVE_ABI_GATE_H

#include "hive/abi/views.h"

HIVE_BEGIN

enum {
  HIVE_RULE_THRESHOLD = 1, /* {gt|gte|lt|lte: number} over one column; violated = the comparison is true */
  HIVE_RULE_CUSTOM = 2     /* any JSON value, judged by `evaluate` */
};
enum {
  HIVE_FIELD_SHED = 1u << 0 /* may stand in shed_if: a threshold over the mean of the column */
};

typedef struct hive_field {
  uint32_t struct_size;
  uint32_t rule;       /* HIVE_RULE_* */
  uint32_t flags;      /* HIVE_FIELD_* */
  uint32_t reserved0;
  hive_str name;       /* as written in policies; unique over all enabled gates */
  hive_str unit;       /* fraction, ms, s, C, count, ... */
  hive_str summary;    /* one sentence for docs and error texts */
  hive_str column;     /* the signal it reads */
  double min;          /* a threshold outside [min, max] is a warning */
  double max;
} hive_field;

/* One custom rule of a step. Frozen: never grows. */
typedef struct hive_rule {
  hive_str field;
  hive_str json;
} hive_rule;

/* hive_config.setup of a gate instance. */
typedef struct hive_gate_setup {
  uint32_t struct_size;
  uint32_t rule_count;
  const hive_rule *const *rules;
} hive_gate_setup;

typedef struct hive_gate_vtable {
  uint32_t struct_size;
  uint32_t field_count;              /* at most 32 */
  const hive_field *const *fields;
  /* [pool] Null when every field is a threshold. Writes all pool->count verdicts: bit k set = fields[k] is violated for
   * that slot. Same input, same verdicts. On failure they are discarded and the step's on_error holds. */
  hive_status (*evaluate)(void *self, const hive_request *request, const hive_pool *pool, uint32_t *verdicts) HIVE_NOEXCEPT;
  void (*on_choice)(void *self, const hive_request *request, const hive_pool *pool, uint32_t index) HIVE_NOEXCEPT; /* [pool] optional */
  void (*on_outcome)(void *self, const hive_outcome *outcome) HIVE_NOEXCEPT;                                     /* [pool] optional */
  void (*on_pool)(void *self, const hive_pool *pool) HIVE_NOEXCEPT;                                              /* [pool] optional */
} hive_gate_vtable;

HIVE_END
#endif
