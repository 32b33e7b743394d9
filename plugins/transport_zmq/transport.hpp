// One instance: the listening half, the diallers and the one descriptor that covers all their sockets. Belongs to the
// loop of its worker; create and destroy come from the control thread, before start and after stop.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core.hpp"
#include "dialler.hpp"
#include "hive/sdk/transport.hpp"
#include "router_side.hpp"

namespace hive::transport_zmq {

class transport {
 public:
  static constexpr std::string_view id = "zmq";
  static constexpr std::string_view version = "0.1.0";
  static constexpr std::string_view summary = "Links over ZeroMQ with CURVE: ROUTER listens, one DEALER a connection dials";
  static constexpr std::string_view schema = settings_schema;
  static void check(const sdk::options &o) { read_settings(o); }

  explicit transport(const sdk::setup &);
  ~transport();
  transport(const transport &) = delete;
  transport &operator=(const transport &) = delete;

  void start(const hive_transport_setup &);
  std::string listen(std::string_view address);
  hive_peer connect(std::string_view address);
  int fd() const { return core_.epoll; }
  uint64_t pump(uint32_t max_messages, uint64_t max_ns);
  hive_status send(hive_peer, std::span<const hive_bytes> parts);
  void close_peer(hive_peer, uint32_t linger_ms);
  void set_denied(std::span<const sdk::transport_key> keys) { router_.set_denied(keys); }
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
