// Watches one listening socket's monitor on its own thread: limits connections before they cost a CURVE handshake, and
// tells the loop which descriptors were disconnected. An unread monitor would block libzmq's I/O thread, hence the thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "hive/abi/host.h"
#include "address.hpp"
#include "settings.hpp"

namespace hive::transport_zmq {

class gatekeeper {
 public:
  gatekeeper(const hive_host *host, const settings &s) : host_(host), settings_(s) {}
  ~gatekeeper();

  // [loop] Starts to watch `socket`; call before it binds. Returns what went wrong, or empty.
  std::string start(void *zmq_context, void *socket, uint64_t serial);
  // [loop] Ends the thread; call before the socket closes.
  void stop();

  int wake_fd() const { return wake_; }     // readable when `disconnected` has something
  // [loop] Moves what was disconnected since the last call; cheap when nothing was.
  bool disconnected(std::vector<int> &out);
  // [loop] The connection is a peer now and no stranger any more. May be known here before its events are read.
  void admit(int fd, const connection_name &);

 private:
  struct connection {
    connection_name name;
    uint64_t since_ns = 0;
    bool handshaken = false;
    bool admitted = false;
  };
  void run();
  void on_event(uint16_t event, int fd);
  void accepted(int fd);
  void forget(int fd);
  void sweep();
  void log(const std::string &line);

  const hive_host *host_;
  const settings settings_;
  void *socket_ = nullptr;
  void *monitor_ = nullptr;  // used by thread_ alone once that runs
  int wake_ = -1;
  std::thread thread_;
  std::atomic<bool> news_{false};
  std::mutex mutex_;         // guards all below
  std::vector<int> gone_;
  std::unordered_map<int, connection> open_;
  std::unordered_map<std::string, int> per_ip_;
  int strangers_ = 0;
  std::vector<connection_name> early_;  // admitted, handshake event not read yet
};

}  // namespace hive::transport_zmq
