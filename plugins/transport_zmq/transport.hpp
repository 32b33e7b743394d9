// One instance: the listening half, the diallers and the one descriptor that covers all their sockets. Belongs to the
// loop of its worker; create and destroy come from the control thread, before start and after stop.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core.hpp"
#include "dialler.hpp"
#include "router_side.hpp"

namespace hive::transport_zmq {

class transport {
 public:
  transport(const hive_host *host, const settings &s);
  ~transport();
  transport(const transport &) = delete;
  transport &operator=(const transport &) = delete;

  // The first three return what went wrong, or empty.
  std::string start(const hive_transport_setup &);
  std::string listen(std::string_view address, std::string &bound);
  std::string connect(std::string_view address, hive_peer &out);
  int fd() const { return core_.epoll; }
  uint64_t pump(uint32_t max_messages, uint64_t max_ns);
  hive_status send(hive_peer, const hive_bytes *parts, size_t count);
  void close_peer(hive_peer, uint32_t linger_ms);
  void set_denied(const uint8_t *keys, size_t count) { router_.set_denied(keys, count); }
  void stop(uint32_t linger_ms);

 private:
  dialler *find(hive_peer);
  void want_pump();

  core core_;
  router_side router_{core_};
  std::vector<std::unique_ptr<dialler>> diallers_;
  size_t first_ = 0;          // whose turn it is when the budget ended early
  bool pumping_ = false;
  bool asked_ = false;        // request_pump since the last pump
  bool started_ = false;
};

}  // namespace hive::transport_zmq
