// The provider calls of one worker. A call looks to the relay like an agent's stream: head, data with credit, end or failure,
// cancel; what comes back is in the client's API already. One call, no retry. Loop thread only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/byte_budget.hpp"
#include "base/loop.hpp"
#include "http/client.hpp"
#include "link/stream.hpp"
#include "providers/provider_set.hpp"

namespace hive::providers {

class call_metrics {
 public:
  // Once a call, when the answer's head is there; status 0: there was none. Any thread.
  virtual void on_provider_call(std::string_view engine, int status, uint64_t duration_ns) = 0;

 protected:
  ~call_metrics() = default;
};

struct call_limits {
  uint64_t time_ns = 120 * ns_per_s;         // of a whole call; the request's own deadline is the relay's
  uint64_t connect_ns = 10 * ns_per_s;       // TCP and again TLS
  size_t answer_bytes = 32 << 20;            // of an answer that is not streamed
  size_t error_bytes = 64 * 1024;
  size_t window_bytes = 256 * 1024;          // passed on and not taken by the client: the provider rests
};

struct call_order {
  api asked = api::chat;                     // the client's
  std::string_view engine;
  std::string_view model;                    // the provider's
  http::body_ptr body;                       // the client's
  size_t model_offset = 0, model_length = 0; // of the value of `model` in it, quotes included
  bool streaming = false;
  std::string_view request_id;               // for the log
  std::span<const http::field> client_fields;
  byte_share *memory = nullptr;
};

class provider_calls {
 public:
  provider_calls(loop &, std::shared_ptr<const provider_set>, call_metrics &, const call_limits & = {});
  ~provider_calls();

  // Null: nothing is sent, and `why` says what cannot be told to that provider. Events never come from inside. The order is
  // borrowed for the call, its body shared.
  std::unique_ptr<link::router_stream> open(const call_order &, link::stream_events &, status &why);
  const provider_set &providers() const { return *set_; }
  // Words of that provider as they may stand in the log: one short line, without its key.
  std::string for_log(std::string_view engine, std::string_view words) const;

 private:
  http::client &client_of(const provider &);

  loop &home_;
  const std::shared_ptr<const provider_set> set_;
  call_metrics &metrics_;
  const call_limits limits_;
  std::array<std::unique_ptr<http::client>, 2> clients_;   // made when first wanted
};

}  // namespace hive::providers
