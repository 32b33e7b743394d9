/* A storage backend keeps small records by key: history, keys, quotas, policies. Every call is [storage] unless tagged
 * otherwise and may block up to its deadline (monotonic ns; 0 = the backend's own limit). Keys are 1..1024 bytes, any
 * bytes; values up to 16 MiB. A record past its expiry reads as missing from that instant on. */
#ifndef HIVE_ABI_STORAGE_H
#define HIVE_ABI_STORAGE_H

#include "hive/abi/host.h"

HIVE_BEGIN

/* Called for each record; views die when it returns. expires_unix_ms 0 = never. Nonzero return ends the scan. It may call
 * get and scan of the same instance; write and sweep answer HIVE_E_ARGUMENT there, close does nothing. */
typedef struct hive_visitor {
  uint32_t struct_size;
  uint32_t reserved0;
  void *ctx;
  int32_t (*visit)(void *ctx, hive_bytes key, hive_bytes value, uint64_t expires_unix_ms) HIVE_NOEXCEPT;
} hive_visitor;

enum { HIVE_WRITE_PUT = 1, HIVE_WRITE_ERASE = 2, HIVE_WRITE_ADD = 3 };

/* PUT replaces value and expiry. ERASE of a missing key is fine. ADD: the record is an int64 (8 bytes little endian, as
 * get shows it), missing = 0; adds delta, writes the new value to result; the expiry is set only when ADD creates it. */
typedef struct hive_write {
  uint32_t struct_size;
  uint32_t op;
  hive_bytes key;
  hive_bytes value;
  uint64_t expires_unix_ms;
  int64_t delta;
  int64_t result;
} hive_write;

typedef struct hive_storage_stats {
  uint32_t struct_size;
  uint32_t readers;
  uint64_t entries;
  uint64_t used_bytes;
  uint64_t capacity_bytes;       /* 0 = no bound of its own */
  uint64_t expired_total;
  uint64_t last_sweep_unix_ms;   /* 0 = never */
} hive_storage_stats;

typedef struct hive_storage_vtable {
  uint32_t struct_size;
  uint32_t reserved0;
  hive_status (*open)(void *self, const hive_error_sink *err) HIVE_NOEXCEPT;
  void (*close)(void *self) HIVE_NOEXCEPT; /* idempotent; destroy follows */
  hive_status (*get)(void *self, hive_bytes key, uint64_t deadline_ns, const hive_visitor *visitor) HIVE_NOEXCEPT; /* HIVE_NOT_FOUND */
  /* Records whose key starts with prefix, in byte order of the keys. */
  hive_status (*scan)(void *self, hive_bytes prefix, uint64_t deadline_ns, const hive_visitor *visitor) HIVE_NOEXCEPT;
  /* All or nothing, durable when it returns HIVE_OK (for a backend that persists). */
  hive_status (*write)(void *self, hive_write *const *ops, size_t count, uint64_t deadline_ns, const hive_error_sink *err) HIVE_NOEXCEPT;
  /* Removes expired records, bounded work a call. The host calls it every few seconds. Optional. */
  hive_status (*sweep)(void *self, uint64_t deadline_ns) HIVE_NOEXCEPT;
  hive_status (*stats)(void *self, hive_storage_stats *out) HIVE_NOEXCEPT; /* optional */
} hive_storage_vtable;

HIVE_END
#endif
