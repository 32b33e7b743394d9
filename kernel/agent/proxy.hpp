// The agent's data half in one loop: turns streams of the link into requests to the engine and back. Belongs to that loop,
// but for the slot count, which every loop of the agent shares.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/engine.hpp"
#include "base/loop.hpp"
#include "config/client_routes.hpp"
#include "http/client.hpp"
#include "link/agent_link.hpp"

namespace hive::agent {

// The truth about the agent's own slots, over all its routers and loops. Any thread.
struct slot_count {
  explicit slot_count(uint32_t most) : capacity(most) {}
  std::atomic<uint32_t> in_flight{0};
  const uint32_t capacity;
  std::atomic<uint64_t> last_engine_byte_ns{0};  // an engine that answers requests is alive, whatever its health page does

  bool take();
  void give_back() { in_flight.fetch_sub(1, std::memory_order_acq_rel); }
};

struct proxy_options {
  uint64_t http_timeout_ns = 120 * ns_per_s;
  uint64_t max_answer_bytes = 64ull << 20;  // of one that is no event stream; 0 = no limit
  size_t buffered_answer_bytes = 8 << 20;   // of a buffered chat: its held head goes out at the latest when so much has come
  size_t error_body_bytes = 64 * 1024;      // of an error that is passed on, and of other JSON that is held to be judged
  std::vector<config::allowed_route> extra_routes;
};

class proxy {
 public:
  proxy(loop &, const engine_codec &, http::origin, slot_count &, const proxy_options &);
  ~proxy();

  // The listener for an incoming stream; refuses it by itself when it must.
  std::unique_ptr<link::agent_stream_events> open(const link::incoming_request &, link::agent_stream &,
                                                  std::atomic<uint32_t> &in_flight_of_router, bool release_at_head,
                                                  std::function<void()> slot_freed);
  void set_models(std::set<std::string> models) { models_ = std::move(models); }
  void drain() { draining_ = true; }

 private:
  friend class proxied_request;
  loop &loop_;
  const engine_codec &codec_;
  slot_count &slots_;
  const proxy_options options_;
  http::client client_;
  std::set<std::string> models_;
  bool draining_ = false;
};

}  // namespace hive::agent
