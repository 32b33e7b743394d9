/* What a call on the request path sees. Every view dies when the call returns.
 *
 * Numbers about agents are columns: columns[id][index], a double in the unit of its gate field (fractions are 0..1,
 * durations say their unit in the name), NaN = missing. Ids come from hive_host.column. */
#ifndef HIVE_ABI_VIEWS_H
#define HIVE_ABI_VIEWS_H

#include "hive/abi/host.h"

HIVE_BEGIN

/* Frozen: never grows. Names are lower case. */
typedef struct hive_header {
  hive_str name;
  hive_str value;
} hive_header;

enum { HIVE_REQUEST_STREAM = 1u << 0 };
#define HIVE_TOKENS_UNKNOWN UINT64_MAX

typedef struct hive_request {
  uint32_t struct_size;
  uint32_t flags;            /* HIVE_REQUEST_* */
  hive_str request_id;
  hive_str model;
  hive_str capability;       /* llm, embedding, reranker */
  hive_str route;            /* route template, e.g. /v1/chat/completions */
  hive_str tenant;
  hive_str session;          /* empty when the client named none */
  int32_t priority;          /* higher goes first; 0 is the usual */
  uint32_t attempt;          /* 0 for the first forward of this request */
  uint64_t deadline_ns;      /* monotonic */
  uint64_t now_ns;           /* monotonic, read once for this selection */
  uint64_t tie_seed;         /* leases this step has made in this pool: ties take tie_seed % ties */
  uint64_t prompt_tokens;    /* estimates; HIVE_TOKENS_UNKNOWN when not known */
  uint64_t output_tokens;
  const uint64_t *prefix_blocks; /* chained XXH3-64 of raw blocks; only with HIVE_NEEDS_PREFIX_BLOCKS */
  size_t prefix_block_count;
  const hive_header *headers;    /* client headers without credentials; only with HIVE_NEEDS_HEADERS */
  size_t header_count;
} hive_request;

/* Slow facts. Lives in a strided array: reach it only through hive_agent_at. A slot that is empty has agent_key 0. */
typedef struct hive_agent {
  uint32_t struct_size;
  uint32_t tag_count;
  uint64_t agent_key;        /* first 8 bytes of SHA-256(peer_id), never 0 for an agent, equal on every router */
  uint64_t generation;       /* rises at each re-registration */
  hive_str peer_id;
  hive_str model;
  hive_str engine;
  hive_str region;
  hive_str organization;
  hive_str machine;
  hive_str gpu_model;
  const hive_str *tags;
} hive_agent;

/* All agents that serve one model. An agent keeps its index while it is in the pool; a leaver leaves an empty slot that
 * a newcomer may take. `epoch` changes when an agent joins, leaves or registers again. */
typedef struct hive_pool {
  uint32_t struct_size;
  uint32_t count;                    /* slots, the empty ones included */
  const void *agents;                /* hive_agent, strided */
  uint32_t agent_stride;
  uint32_t column_count;             /* ids below this may be read */
  const double *const *columns;      /* columns[id] is null or holds `count` values */
  const uint64_t *const *sampled_ns; /* when each value was sampled (monotonic); sampled_ns[id] null = live */
  const uint8_t *eligible;           /* `count` bytes; nonzero = passed every gate so far */
  const uint32_t *candidates;        /* indexes of the eligible, ascending; empty while gates run */
  uint32_t candidate_count;
  uint32_t reserved0;
  uint64_t epoch;
} hive_pool;

static inline const hive_agent *hive_agent_at(const hive_pool *pool, uint32_t index) {
  return (const hive_agent *)(const void *)((const char *)pool->agents + (size_t)index * pool->agent_stride);
}

static inline const double *hive_column_at(const hive_pool *pool, hive_column id) {
  return id < pool->column_count ? pool->columns[id] : (const double *)0;
}

enum { HIVE_PHASE_FIRST_TOKEN = 1, HIVE_PHASE_END = 2 };

/* FIRST_TOKEN comes at most once, END exactly once for every lease. `index` is UINT32_MAX when the agent has left. */
typedef struct hive_outcome {
  uint32_t struct_size;
  uint32_t phase;            /* HIVE_PHASE_* */
  uint64_t agent_key;
  uint32_t index;
  hive_status status;        /* END: HIVE_OK or why not */
  uint64_t since_lease_ns;
  uint64_t prompt_tokens;    /* END: as the engine counted; HIVE_TOKENS_UNKNOWN */
  uint64_t output_tokens;
  uint64_t cached_tokens;
} hive_outcome;

HIVE_END
#endif
