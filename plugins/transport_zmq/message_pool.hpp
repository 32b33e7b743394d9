// Received frames as hive_message, recycled. take and finish belong to the instance's loop, retain and release of a
// message to any thread; the pool outlives its instance until the last retained message has come back.
#pragma once

#include <zmq.h>

#include <atomic>
#include <cstdint>

#include "hive/abi/transport.h"

namespace hive::transport_zmq {

class message_pool;

struct message : hive_message {
  zmq_msg_t frame;  // owns the bytes: no copy is made
  std::atomic<uint32_t> refs{1};
  message_pool *pool = nullptr;
  message *next = nullptr;
};

class message_pool {
 public:
  static message_pool *make() { return new message_pool; }
  void close() { unref(); }  // by the instance, once

  message *take();         // with an empty frame and one reference
  void finish(message *);  // drops the loop's reference
  static void seal(message *m) {
    m->bytes = {static_cast<const uint8_t *>(zmq_msg_data(&m->frame)), zmq_msg_size(&m->frame)};
  }

 private:
  message_pool() = default;
  ~message_pool();
  void unref() {
    if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  static void retain(const hive_message *) noexcept;
  static void release(const hive_message *) noexcept;

  std::atomic<uint32_t> users_{1};            // the instance and every message out
  message *free_ = nullptr;                   // loop only
  uint32_t free_count_ = 0;
  std::atomic<message *> returned_{nullptr};  // pushed by any thread, taken whole by the loop
};

}  // namespace hive::transport_zmq
