#include "context.hpp"

#include <zmq.h>

#include <cstring>
#include <system_error>
#include <vector>

namespace hive::transport_zmq {

namespace {
std::mutex only_mutex;  // held while the context ends, so that the next one cannot begin beside it
context *only = nullptr;
unsigned users = 0;
}  // namespace

context *context::acquire(int io_threads) {
  const std::lock_guard lock(only_mutex);
  if (only == nullptr) {
    auto *made = new context;
    if (!made->open(io_threads)) {
      delete made;
      return nullptr;
    }
    only = made;
  }
  ++users;
  return only;
}

void context::release() {
  const std::lock_guard lock(only_mutex);
  if (--users != 0) return;
  delete only;
  only = nullptr;
}

bool context::open(int io_threads) {
  io_threads_ = io_threads;
  raw_ = zmq_ctx_new();
  if (raw_ == nullptr) return false;
  zmq_ctx_set(raw_, ZMQ_IO_THREADS, io_threads);
  zmq_ctx_set(raw_, ZMQ_MAX_SOCKETS, 16384);
  zap_ = zmq_socket(raw_, ZMQ_REP);
  const int no_linger = 0;
  if (zap_ == nullptr) return false;
  zmq_setsockopt(zap_, ZMQ_LINGER, &no_linger, sizeof no_linger);
  if (zmq_bind(zap_, "inproc://zeromq.zap.01") != 0) return false;
  try {
    zap_thread_ = std::thread([this] { answer_zap(); });
  } catch (const std::system_error &) {
    return false;
  }
  return true;
}

context::~context() {
  if (raw_ == nullptr) return;
  zmq_ctx_shutdown(raw_);  // the ZAP thread's receive answers ETERM
  if (zap_thread_.joinable())
    zap_thread_.join();
  else if (zap_ != nullptr)
    zmq_close(zap_);
  while (zmq_ctx_term(raw_) != 0 && zmq_errno() == EINTR) {
  }
}

uint64_t context::next_serial() {
  const std::lock_guard lock(mutex_);
  return ++serial_;
}

void context::set_denied(const std::string &domain, std::set<key32> keys) {
  const std::lock_guard lock(mutex_);
  denied_[domain] = std::move(keys);
}

void context::forget(const std::string &domain) {
  const std::lock_guard lock(mutex_);
  denied_.erase(domain);
}

bool context::denied(const std::string &domain, const key32 &key) {
  const std::lock_guard lock(mutex_);
  const auto found = denied_.find(domain);
  return found != denied_.end() && found->second.contains(key);
}

// RFC 27: version, request id, domain, address, identity, mechanism, credentials. The handshake has proven the key; the
// answer only binds it to the connection as User-Id, which a client could forge if nobody answered.
void context::answer_zap() {
  for (;;) {
    std::vector<std::string> frames;
    int more = 1;
    while (more != 0) {
      zmq_msg_t frame;
      zmq_msg_init(&frame);
      if (zmq_msg_recv(&frame, zap_, 0) < 0) {
        const int error = zmq_errno();
        zmq_msg_close(&frame);
        if (error == EINTR) continue;
        zmq_close(zap_);
        return;
      }
      frames.emplace_back(static_cast<const char *>(zmq_msg_data(&frame)), zmq_msg_size(&frame));
      more = zmq_msg_more(&frame);
      zmq_msg_close(&frame);
    }
    const std::string request_id = frames.size() > 1 ? frames[1] : std::string();
    std::string code = "400", text = "this key may not connect", user;
    if (frames.size() == 7 && frames[5] == "CURVE" && frames[6].size() == HIVE_KEY_BYTES) {
      key32 key;
      std::memcpy(key.data(), frames[6].data(), key.size());
      if (!denied(frames[2], key)) {
        char z85[41];
        zmq_z85_encode(z85, key.data(), key.size());
        user = z85;
        code = "200";
        text = "OK";
      }
    }
    const std::string *reply[] = {&request_id, &code, &text, &user};
    zmq_send(zap_, "1.0", 3, ZMQ_SNDMORE);
    for (const std::string *part : reply) zmq_send(zap_, part->data(), part->size(), ZMQ_SNDMORE);
    zmq_send(zap_, "", 0, 0);
  }
}

}  // namespace hive::transport_zmq
