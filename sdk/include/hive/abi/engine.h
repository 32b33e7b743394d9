/* An engine adapter is a codec with no I/O and no clock: the kernel fetches the pages it lists, the adapter reads them.
 * Every call is [pure]. One instance per process. Connection errors never reach it. */
#ifndef HIVE_ABI_ENGINE_H
#define HIVE_ABI_ENGINE_H

#include "hive/abi/views.h"

HIVE_BEGIN

enum { HIVE_PAGE_HEALTH = 1, HIVE_PAGE_MODELS = 2, HIVE_PAGE_METRICS = 3, HIVE_PAGE_LOAD = 4 };

typedef struct hive_page {
  uint32_t struct_size;
  uint32_t role;         /* HIVE_PAGE_* */
  hive_str method;
  hive_str path;
  uint32_t period_ms;    /* 0 = the agent's own sampling period for that role */
  uint32_t timeout_ms;
} hive_page;

typedef struct hive_signal {
  uint32_t struct_size;
  uint32_t stale_after_ms; /* 0 = the host's default of 10 s */
  hive_str name;           /* the column */
  hive_str unit;
  hive_str help;
} hive_signal;

typedef struct hive_engine_description {
  uint32_t struct_size;
  uint32_t page_count;
  const hive_page *const *pages;
  const hive_signal *const *signals;
  uint32_t signal_count;
  uint32_t capability_count;
  const hive_str *capabilities;      /* llm, embedding, reranker */
  hive_str abort_path;               /* empty: closing the connection ends the engine's request */
  uint32_t idle_limit_ms;            /* retire kept connections before this; 0 = the host's default */
  uint32_t requests_per_connection;  /* 0 = no limit known */
  uint32_t default_port;
  uint32_t reserved0;
} hive_engine_description;

enum { HIVE_ENGINE_READY = 1, HIVE_ENGINE_STARTING = 2, HIVE_ENGINE_DOWN = 3 };

/* What a page said. A missing value is not reported at all. Names are signal names. A health page of which no state is
 * reported leaves readiness to the list of models. */
typedef struct hive_page_sink {
  uint32_t struct_size;
  uint32_t reserved0;
  void *ctx;
  void (*state)(void *ctx, int32_t state, hive_str reason) HIVE_NOEXCEPT;
  void (*model)(void *ctx, hive_str id, const hive_header *labels, size_t label_count) HIVE_NOEXCEPT;
  void (*gauge)(void *ctx, hive_str name, double value) HIVE_NOEXCEPT;
  /* A running total; label_name empty when it has none. The host makes rates and deltas and sees restarts. */
  void (*counter)(void *ctx, hive_str name, hive_str label_name, hive_str label_value, double total) HIVE_NOEXCEPT;
  /* `count` finite upper bounds, ascending, with cumulative counts; `total` counts the last, unbounded bucket too. */
  void (*histogram)(void *ctx, hive_str name, const double *bounds, const double *cumulative, size_t count, double sum,
                    double total) HIVE_NOEXCEPT;
} hive_page_sink;

enum {
  HIVE_ANSWER_OK = 1,
  HIVE_ANSWER_CLIENT = 2,        /* the client's mistake: never retried, never the agent's fault */
  HIVE_ANSWER_CONTEXT = 3,       /* of the former: prompt and output do not fit the context */
  HIVE_ANSWER_OVERLOADED = 4,    /* another agent may do; no penalty */
  HIVE_ANSWER_STARTING = 5,      /* loading; no penalty */
  HIVE_ANSWER_FAILED = 6,
  HIVE_ANSWER_UNKNOWN_MODEL = 7
};

typedef struct hive_answer_class {
  uint32_t struct_size;
  int32_t verdict;               /* HIVE_ANSWER_* */
  uint64_t retry_after_ms;       /* 0 = not said */
  hive_str message;              /* borrowed from body, constant, or the adapter's until its next call on this thread */
} hive_answer_class;

typedef struct hive_engine_vtable {
  uint32_t struct_size;
  uint32_t reserved0;
  /* Valid until destroy. */
  const hive_engine_description *(*describe)(void *self) HIVE_NOEXCEPT;
  /* pages[page] answered with `status` and `body`. HIVE_E_CORRUPT only when nothing in it could be read. */
  hive_status (*parse_page)(void *self, uint32_t page, uint32_t status, hive_bytes body, const hive_page_sink *sink) HIVE_NOEXCEPT;
  /* Judges an answer of the engine that is not a plain 200 (or a 200 that carries an error). */
  hive_status (*classify)(void *self, uint32_t status, const hive_header *headers, size_t header_count, hive_bytes body,
                          hive_answer_class *out) HIVE_NOEXCEPT;
} hive_engine_vtable;

HIVE_END
#endif
