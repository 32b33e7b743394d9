// One connection attempt and the connection it becomes: a DEALER of its own with its monitor. Never reconnects; when it
// is over it says so once and is thrown away. Belongs to the loop.
//
// The monitor is read by the loop: a connection has a handful of events in its life, which cannot fill the monitor's pipe.
#pragma once

#include <cstdint>
#include <string>

#include "address.hpp"
#include "core.hpp"

namespace hive::transport_zmq {

class dialler {
 public:
  dialler(core &c, hive_peer id) : core_(c), id_(id) {}
  ~dialler() { close(0); }
  dialler(const dialler &) = delete;
  dialler &operator=(const dialler &) = delete;

  // Returns what went wrong, or empty.
  std::string open(const literal &address);
  hive_peer id() const { return id_; }
  bool over() const { return state_ == state::over; }
  bool touched() const { return touched_ && (state_ == state::up || state_ == state::closing); }
  // Whether everything was done; `wake` is lowered to when it wants to be called again.
  bool pump(budget &, uint64_t &wake);
  hive_status send(const hive_bytes *parts, size_t count);
  void close_peer(uint32_t linger_ms);
  void stop(uint32_t linger_ms);  // as router_side::stop

 private:
  enum class state { connecting, shaken, up, closing, over };
  void read_monitor(uint64_t now);
  void on_event(int event, uint32_t value, uint64_t now);
  bool drain(budget &);
  bool send_goodbye();
  void ended(int32_t reason, const char *text);
  void lose(int32_t reason, std::string_view text);
  void close(uint32_t linger_ms);

  core &core_;
  const hive_peer id_;
  state state_ = state::connecting;
  void *socket_ = nullptr;
  void *monitor_ = nullptr;
  std::string address_;
  bool connected_ = false;         // TCP
  bool touched_ = true;            // a send may have eaten the readiness edge, or the budget ended early
  bool blocked_ = false;
  bool goodbye_sent_ = false;
  bool ended_ = false;             // libzmq dropped the connection; what it delivered may still have to be read
  int32_t reason_ = HIVE_LOST_CLOSED;
  const char *text_ = "";
  uint64_t looked_ns_ = 0;         // when the monitor had no more events
  uint64_t connected_ns_ = 0;      // when the loop read that it is
  uint64_t deadline_ns_ = 0;       // of connecting, later of closing
  uint64_t ended_deadline_ns_ = 0;
};

}  // namespace hive::transport_zmq
