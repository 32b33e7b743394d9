/* A transport carries whole messages between peers over authenticated, encrypted connections. One instance per worker,
 * driven by that worker's loop: it owns no thread of the host's, hands out a readiness descriptor and is pumped. It
 * knows nothing of what the messages say. All calls and events are [loop] unless tagged otherwise. */
#ifndef HIVE_ABI_TRANSPORT_H
#define HIVE_ABI_TRANSPORT_H

#include "hive/abi/host.h"

HIVE_BEGIN

enum { HIVE_KEY_BYTES = 32 };

/* Names one connection. Never 0, never reused within an instance. */
typedef uint64_t hive_peer;

/* A received message. Valid during on_message; retain to keep it longer. retain and release are [any]. */
typedef struct hive_message {
  uint32_t struct_size;
  uint32_t reserved0;
  hive_bytes bytes;
  void (*retain)(const struct hive_message *message) HIVE_NOEXCEPT;
  void (*release)(const struct hive_message *message) HIVE_NOEXCEPT;
} hive_message;

enum {
  HIVE_LOST_CLOSED = 1,    /* the other side went away, or close_peer */
  HIVE_LOST_TIMEOUT = 2,   /* no sign of life */
  HIVE_LOST_REFUSED = 3,   /* no connection could be made */
  HIVE_LOST_AUTH = 4,      /* the handshake failed: keys do not match */
  HIVE_LOST_PROTOCOL = 5   /* oversized or malformed message */
};

/* Events are raised only from inside pump (and stop), never re-entrantly from send, connect or close_peer. */
typedef struct hive_transport_events {
  uint32_t struct_size;
  uint32_t reserved0;
  void *ctx;
  /* A peer is connected and its key proven. Router side: a stranger until the kernel authenticates it. */
  void (*on_peer)(void *ctx, hive_peer peer, const uint8_t key[32], hive_str address) HIVE_NOEXCEPT;
  void (*on_message)(void *ctx, hive_peer peer, const hive_message *message) HIVE_NOEXCEPT;
  void (*on_writable)(void *ctx, hive_peer peer) HIVE_NOEXCEPT; /* after HIVE_FULL */
  /* Exactly once for every peer of on_peer and every connect that returned a peer; nothing about it follows. */
  void (*on_lost)(void *ctx, hive_peer peer, int32_t reason, hive_str text) HIVE_NOEXCEPT;
} hive_transport_events;

typedef struct hive_transport_setup {
  uint32_t struct_size;
  uint32_t worker;               /* 0 .. workers - 1 */
  uint32_t workers;
  uint32_t reserved0;
  const uint8_t *secret_key;     /* own X25519 key pair, 32 bytes each; borrowed for the call */
  const uint8_t *public_key;
  const uint8_t *router_key;     /* the public key a dialler pins; null on the listening side */
  const hive_transport_events *events; /* valid until stop has returned */
} hive_transport_setup;

typedef struct hive_transport_vtable {
  uint32_t struct_size;
  uint32_t reserved0;
  /* After stop it may be called again, with other keys and events. */
  hive_status (*start)(void *self, const hive_transport_setup *setup, const hive_error_sink *err) HIVE_NOEXCEPT;
  /* Takes HOST:PORT, a literal address; port 0 = any. Puts the bound HOST:PORT to `bound`. */
  hive_status (*listen)(void *self, hive_str address, const hive_text_sink *bound, const hive_error_sink *err) HIVE_NOEXCEPT;
  /* Starts one connection to a literal HOST:PORT. on_peer or on_lost follows; never reconnects by itself. */
  hive_status (*connect)(void *self, hive_str address, hive_peer *out, const hive_error_sink *err) HIVE_NOEXCEPT;
  int (*fd)(void *self) HIVE_NOEXCEPT; /* readable = call pump; -1 = pumped only on request and by time; fixed from start to stop */
  /* Delivers at most max_messages events or works at most max_ns. next_wake_ns (monotonic): 0 = call again this turn,
   * UINT64_MAX = on readiness only. */
  hive_status (*pump)(void *self, uint32_t max_messages, uint64_t max_ns, uint64_t *next_wake_ns) HIVE_NOEXCEPT;
  /* One message from `count` parts, copied. HIVE_OK, HIVE_FULL, HIVE_GONE. Acceptance promises nothing about arrival.
   * HIVE_E_ARGUMENT for an empty message or one of more than 262,144 bytes; nothing is sent then. */
  hive_status (*send)(void *self, hive_peer peer, const hive_bytes *parts, size_t count) HIVE_NOEXCEPT;
  /* Sends what was accepted, waits for it at most linger_ms, closes. on_lost(CLOSED) follows. */
  void (*close_peer)(void *self, hive_peer peer, uint32_t linger_ms) HIVE_NOEXCEPT;
  /* Keys that may not connect from now on: `count` times 32 bytes. Replaces the list. */
  hive_status (*set_denied)(void *self, const uint8_t *keys, size_t count) HIVE_NOEXCEPT;
  /* Not from inside an event. on_lost is raised for every peer that is left; listener, descriptor and keys go, and the
   * instance is as before its first start, but for the denied keys. What was accepted may leave for linger_ms more. Without
   * a start before, and a second time, it does nothing. */
  void (*stop)(void *self, uint32_t linger_ms) HIVE_NOEXCEPT;
} hive_transport_vtable;

HIVE_END
#endif
