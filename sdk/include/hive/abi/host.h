/* What the host offers an instance. One table per instance, valid from `create` until `destroy` has returned.
 *
 * Thread tags, used in every header:
 *   [control]  the host's control thread; one call at a time per instance
 *   [storage]  the host's storage thread; may block up to the given deadline
 *   [loop]     the loop of the worker that owns the instance; must not block
 *   [pool]     under one pool's lock: never concurrent for that instance, must not block, allocate in steady state or
 *              take a lock that is held elsewhere across I/O
 *   [pure]     any thread, many at once, no mutable state
 *   [any]      any thread, many at once */
#ifndef HIVE_ABI_HOST_H
#define HIVE_ABI_HOST_H

#include "hive/abi/status.h"

HIVE_BEGIN

/* An interned signal name. 0 = none; columns[0] is always null. */
typedef uint32_t hive_column;
/* A metric handle. 0 = refused (too many, or a bad name); adding to it does nothing. */
typedef uint32_t hive_metric;
typedef void (*hive_task)(void *arg) HIVE_NOEXCEPT;

enum { HIVE_LOG_DEBUG = 0, HIVE_LOG_INFO = 1, HIVE_LOG_WARN = 2, HIVE_LOG_ERROR = 3 };
enum { HIVE_METRIC_COUNTER = 1, HIVE_METRIC_GAUGE = 2 };

typedef struct hive_host {
  uint32_t struct_size;
  uint16_t abi_major;
  uint16_t abi_minor;
  void *ctx;
  /* [any] One line, no newline at its end. The host adds component and instance, and limits the rate. */
  void (*log)(const struct hive_host *host, int32_t level, hive_str line) HIVE_NOEXCEPT;
  /* [any] Monotonic clock, nanoseconds since an unspecified start. */
  uint64_t (*now_ns)(const struct hive_host *host) HIVE_NOEXCEPT;
  /* [any] Runs task(arg) on [control], beside [pool] calls: the author synchronises. Dropped when `destroy` has begun. */
  hive_status (*post)(const struct hive_host *host, hive_task task, void *arg) HIVE_NOEXCEPT;
  /* [create only] The column of a signal by its name; the same name gives the same id for the life of the process.
   * A column that nobody publishes is legal: it reads as missing. 0 when the router's limit of names is reached. */
  hive_column (*column)(const struct hive_host *host, hive_str name) HIVE_NOEXCEPT;
  /* [create only] The host prefixes the name with hivenet_router_plugin_<kind>_<id>_. */
  hive_metric (*metric_register)(const struct hive_host *host, int32_t kind, hive_str name, hive_str help) HIVE_NOEXCEPT;
  /* [any] Wait-free. Adds to a counter (delta >= 0) or a gauge. NaN and infinity are left out. */
  void (*metric_add)(const struct hive_host *host, hive_metric metric, double delta) HIVE_NOEXCEPT;
  /* [loop] Transport only: asks the host to call `pump` at the end of this loop turn. Coalesced, and answered by the next
     `pump` whatever that one was called for: a `pump` that leaves work behind answers 0 as its wake-up time. */
  void (*request_pump)(const struct hive_host *host) HIVE_NOEXCEPT;
} hive_host;

HIVE_END
#endif
