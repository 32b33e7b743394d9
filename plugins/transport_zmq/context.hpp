// The library's one ZeroMQ context with its ZAP thread, counted by the instances that use it. Any thread.
//
// A second context in one process is avoided on purpose: ending one closes libsodium's random source under the other.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "hive/abi/transport.h"

namespace hive::transport_zmq {

using key32 = std::array<uint8_t, HIVE_KEY_BYTES>;

class context {
 public:
  // Makes the context for the first caller, with `io_threads` I/O threads. Null when libzmq or a thread cannot start.
  static context *acquire(int io_threads);
  // The last release ends the context; it waits for sockets that still linger.
  static void release();

  void *raw() const { return raw_; }
  int io_threads() const { return io_threads_; }
  uint64_t next_serial();  // for names of monitors and ZAP domains

  // Keys refused from now on at sockets of that ZAP domain. Replaces the list.
  void set_denied(const std::string &domain, std::set<key32> keys);
  void forget(const std::string &domain);

 private:
  context() = default;
  ~context();
  bool open(int io_threads);
  void answer_zap();
  bool denied(const std::string &domain, const key32 &key);

  void *raw_ = nullptr;
  void *zap_ = nullptr;  // bound before any listening socket, then used by zap_thread_ alone
  int io_threads_ = 1;
  std::thread zap_thread_;
  std::mutex mutex_;     // guards the two below
  uint64_t serial_ = 0;
  std::map<std::string, std::set<key32>> denied_;
};

}  // namespace hive::transport_zmq
