// Asking an engine for a stream's usage on our own account, when the client did not: the request gains
// stream_options.include_usage, and the event that the engine adds for it is kept from the client. No other byte changes
// (docs/http-api.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/byte_budget.hpp"
#include "gateway/request_scan.hpp"
#include "http/message.hpp"

namespace hive::gateway {

// The body with the question in it; null when there is nothing to ask: no stream, the client asked itself, or it said something
// about include_usage or stream_options that is not ours to change. Counted against `of` like the body it replaces. Loop thread of
// `of`; without it any thread.
http::body_ptr with_usage_asked(std::string_view body, const request_scan &, byte_share *of);

// Takes the usage event out of one stream of server-sent events. Bytes of an event are held until it is complete, at most
// max_event of them; a larger event passes as it comes. Linear in the input however the reads are cut. One stream an instance.
class usage_filter {
 public:
  static constexpr size_t max_event = 64 * 1024;

  // What the client may see now: of these bytes and of what was held. Valid until the next call and as long as `bytes`.
  // `kept_back` grows by the bytes that the client will never see.
  std::string_view pass(std::string_view bytes, size_t &kept_back);
  // The stream is over: what is held and no usage event.
  std::string_view rest(size_t &kept_back);
  // What has been passed ends with a whole event.
  bool between_events() const { return !passing_ && after_cr_ == after_cr::none; }

 private:
  enum class after_cr : uint8_t { none, pass, drop };  // the last event ended with a CR: its LF goes the same way

  void judge(size_t &kept_back);

  std::string held_;      // of the current event
  std::string out_;
  bool line_empty_ = true;
  bool skip_lf_ = false;  // a CR ended the last line inside an event
  bool passing_ = false;  // the current event is too large to be held
  after_cr after_cr_ = after_cr::none;
};

}  // namespace hive::gateway
