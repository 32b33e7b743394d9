/* What a call answers. Zero and above are outcomes, below zero are failures; a code the reader does not know counts as
 * HIVE_E_INTERNAL. */
#ifndef HIVE_ABI_STATUS_H
#define HIVE_ABI_STATUS_H

#include "hive/abi/base.h"

HIVE_BEGIN

typedef int32_t hive_status;
enum {
  HIVE_OK = 0,
  HIVE_NO_CHOICE = 1, /* strategy: none of the candidates */
  HIVE_NOT_FOUND = 2, /* storage: no such key */
  HIVE_FULL = 3,      /* transport: the peer's pipe is full; nothing was taken */
  HIVE_GONE = 4,      /* transport: no such peer (any more) */

  HIVE_E_CONFIG = -1,
  HIVE_E_ARGUMENT = -2,
  HIVE_E_UNSUPPORTED = -3,
  HIVE_E_TIMEOUT = -4,
  HIVE_E_UNAVAILABLE = -5,
  HIVE_E_CORRUPT = -6,
  HIVE_E_EXHAUSTED = -7, /* memory, map, descriptors */
  HIVE_E_INTERNAL = -8
};

/* Where a cold-path call leaves its words. Lives on the caller's stack; `set` copies the text and may be called once.
 * A null sink is allowed everywhere: then the words are lost and only the code counts. */
typedef struct hive_error_sink {
  uint32_t struct_size;
  uint32_t reserved0;
  void *ctx;
  void (*set)(void *ctx, hive_status code, hive_str message) HIVE_NOEXCEPT;
} hive_error_sink;

HIVE_END
#endif
