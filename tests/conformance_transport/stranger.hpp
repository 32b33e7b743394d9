// What tests of strangers at the port of the ZeroMQ transport share. One thread at a time.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "node.hpp"

namespace hive::conformance {

inline const hive_component *zmq_plugin() {
  static const hive_component *loaded = load_component(TRANSPORT_ZMQ);
  return loaded;
}

inline uint16_t port_of(const std::string &bound) { return static_cast<uint16_t>(std::stoul(bound.substr(bound.rfind(':') + 1))); }

// Connected to 127.0.0.1, nothing said yet.
inline int raw_connection(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr *>(&to), sizeof to), 0);
  return fd;
}

inline size_t resident_bytes() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace hive::conformance
