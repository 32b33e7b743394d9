/* The smallest pieces every other header uses: the version, export and C++ glue, borrowed text and bytes.
 *
 * Ownership: all memory belongs to whoever made it. A hive_str or hive_bytes is borrowed; it lives until the call it was
 * passed to returns, unless the function says otherwise. Text is UTF-8, never null-terminated. */
#ifndef HIVE_ABI_BASE_H
#define HIVE_ABI_BASE_H

#include <stddef.h>
#include <stdint.h>

/* While the major is 0 a plugin loads only in a host of exactly its minor. */
#define HIVE_ABI_MAJOR 0u
#define HIVE_ABI_MINOR 1u

#ifdef __cplusplus
#define HIVE_NOEXCEPT noexcept
#define HIVE_EXTERN_C extern "C"
#define HIVE_BEGIN extern "C" {
#define HIVE_END }
#else
#define HIVE_NOEXCEPT
#define HIVE_EXTERN_C
#define HIVE_BEGIN
#define HIVE_END
#endif
#define HIVE_EXPORT HIVE_EXTERN_C __attribute__((visibility("default")))

/* Whether the struct the other side handed over is long enough to hold `field`. Structs grow only at their end. */
#define HIVE_HAS(type, p, field) \
  (offsetof(type, field) + sizeof(((const type *)0)->field) <= (size_t)(p)->struct_size)

HIVE_BEGIN

/* Frozen: these two never grow. */
typedef struct hive_str {
  const char *ptr;
  size_t len;
} hive_str;

typedef struct hive_bytes {
  const uint8_t *ptr;
  size_t len;
} hive_bytes;

/* A hive_str of a string literal, usable as a static initialiser in C and C++. */
#define HIVE_STR(literal) \
  { (literal), sizeof(literal) - 1 }

/* Where a callee puts text of a length the caller cannot know. The receiver copies; put may be called once. */
typedef struct hive_text_sink {
  uint32_t struct_size;
  uint32_t reserved0;
  void *ctx;
  void (*put)(void *ctx, hive_str text) HIVE_NOEXCEPT;
} hive_text_sink;

HIVE_END
#endif
