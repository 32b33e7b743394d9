// Watches one listening socket's monitor on its own thread: limits connections before they cost a CURVE handshake, and
// tells the loop which descriptors were disconnected. An unread monitor would block libzmq's I/O thread, hence the thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hive/abi/host.h"
#include "address.hpp"
#include "core.hpp"

namespace hive::transport_zmq {

class gatekeeper {
 public:
  explicit gatekeeper(const core &c);
  ~gatekeeper();

  // [loop] Starts to watch `socket`; call before it binds. Returns what went wrong, or empty.
  std::string start(void *zmq_context, void *socket, uint64_t serial);
  // [loop] The port it listens on, as soon as it is known; 0 = not yet.
  void set_port(uint16_t port) { port_.store(port, std::memory_order_release); }
  // [loop] Ends the thread; call before the socket closes.
  void stop();

  int wake_fd() const { return wake_; }     // readable when `disconnected` has something
  // [loop] Moves what was disconnected since the last call; cheap when nothing was.
  bool disconnected(std::vector<int> &out);
  // [loop] The connection is a peer now and no stranger any more. libzmq's event of a handshake that succeeded does not say whose.
  void admit(int fd, const connection_name &);

 private:
  struct connection {
    connection_name name;
    std::string site;        // what the limits count it under
    uint64_t since_ns = 0;
    bool admitted = false;
  };
  void run();
  void on_event(uint16_t event, int fd);
  void accepted(int fd);
  void forget(int fd);
  void sweep();
  // Who is no peer by then is cut. Who is gone by then has cost a handshake for nothing, whoever ended it, and counts as a failure.
  uint64_t settling_ns() const { return 2'000'000ull * static_cast<uint64_t>(settings_.handshake_timeout_ms); }
  // Down to no_stranger_any_more: with mutex_ held.
  bool was_admitted(const connection_name &) const;
  bool worth_a_line(const std::string &site, uint64_t now);
  bool is_counted(const connection &) const;
  void note_failure(const std::string &site);
  bool fails_too_often(const std::string &site, uint64_t now) const;
  void no_stranger_any_more(connection &);
  void log(const std::string &line);

  const hive_host *host_;
  const settings settings_;
  const rejection_metrics refused_;
  void *socket_ = nullptr;
  void *monitor_ = nullptr;  // used by thread_ alone once that runs
  int wake_ = -1;
  std::thread thread_;
  std::atomic<bool> news_{false};
  std::atomic<uint16_t> port_{0};
  std::mutex mutex_;         // guards all below
  std::vector<int> gone_;
  std::unordered_map<int, connection> open_;
  struct of_site {
    int connections = 0, strangers = 0;
  };
  std::unordered_map<std::string, of_site> sites_;
  std::unordered_map<std::string, uint64_t> quiet_until_ns_;  // of sites that a line was written about
  int strangers_ = 0;
  struct of_minute {
    uint64_t since_ns = 0;
    int failures = 0;
  };
  std::unordered_map<std::string, of_minute> failed_;  // by site
  // Admitted lately: the loop may know of a peer before this thread has read that it was accepted, and a descriptor that is
  // used again may have had another one's name then.
  std::vector<std::pair<connection_name, uint64_t>> admitted_;
};

}  // namespace hive::transport_zmq
