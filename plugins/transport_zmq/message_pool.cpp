#include "message_pool.hpp"

namespace hive::transport_zmq {

namespace {
constexpr uint32_t keep_at_most = 1024;
}

message *message_pool::take() {
  if (free_ == nullptr) {
    free_ = returned_.exchange(nullptr, std::memory_order_acquire);
    for (message *m = free_; m != nullptr; m = m->next) ++free_count_;
  }
  message *m = free_;
  if (m != nullptr) {
    free_ = m->next;
    --free_count_;
  } else {
    m = new message;
    m->struct_size = sizeof(hive_message);
    m->reserved0 = 0;
    m->retain = &retain;
    m->release = &release;
    m->pool = this;
  }
  m->refs.store(1, std::memory_order_relaxed);
  zmq_msg_init(&m->frame);
  users_.fetch_add(1, std::memory_order_relaxed);
  return m;
}

void message_pool::finish(message *m) {
  if (m->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  zmq_msg_close(&m->frame);
  if (free_count_ < keep_at_most) {
    m->next = free_;
    free_ = m;
    ++free_count_;
  } else {
    delete m;
  }
  unref();
}

void message_pool::retain(const hive_message *message_in) noexcept {
  auto *m = const_cast<message *>(static_cast<const message *>(message_in));
  m->refs.fetch_add(1, std::memory_order_relaxed);
}

void message_pool::release(const hive_message *message_in) noexcept {
  auto *m = const_cast<message *>(static_cast<const message *>(message_in));
  if (m->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  zmq_msg_close(&m->frame);
  message_pool *pool = m->pool;
  m->next = pool->returned_.load(std::memory_order_relaxed);
  while (!pool->returned_.compare_exchange_weak(m->next, m, std::memory_order_release, std::memory_order_relaxed)) {
  }
  pool->unref();
}

message_pool::~message_pool() {
  for (message *list : {free_, returned_.load(std::memory_order_acquire)})
    while (list != nullptr) {
      message *next = list->next;
      delete list;
      list = next;
    }
}

}  // namespace hive::transport_zmq
