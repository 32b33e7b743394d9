// One worker of a router process. Private to the files of router_app.
#pragma once

#include <memory>
#include <thread>

#include "apps/router_app.hpp"

namespace hive::apps {

// One worker: its loop, its hub over its own transport instance, its HTTP server.
struct router_app::unit {
  explicit unit(byte_budget &budget) : memory(budget) {}
  loop home;
  byte_share memory;  // what is held when all below is gone is nothing
  std::unique_ptr<plugins::instance> transport, own_transport;
  std::unique_ptr<link::router_hub> hub;
  std::unique_ptr<providers::provider_calls> providers;
  std::unique_ptr<gateway::worker> gateway;
  std::unique_ptr<http::server> server, admin_server;  // the second on one worker only, if at all
  std::thread thread;

  size_t busy() const { return server->busy() + (admin_server ? admin_server->busy() : 0); }

  ~unit() {
    if (thread.joinable()) {
      home.stop();
      thread.join();
    }
    admin_server.reset();
    server.reset();
    gateway.reset();
    providers.reset();
    hub.reset();
    transport.reset();
    own_transport.reset();
  }
};

}  // namespace hive::apps
