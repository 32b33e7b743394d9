// A provider's event stream in the client's own API on its way through: whether it is an answer and whether it is whole. Passes every
// byte as it came, event by event, but for the provider's key in events that tell of an error. An event longer than `most` passes unread
// as it comes. Internal to providers/. One stream an instance, one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "providers/api.hpp"
#include "providers/event_reader.hpp"

namespace hive::providers {

class passed_stream {
 public:
  passed_stream(api spoken, std::string_view key, size_t most) : spoken_(spoken), key_(key), most_(most) {}  // the key is borrowed

  void feed(std::string_view bytes, std::string &out);
  void end(std::string &out);                        // the body is over
  bool answered() const { return answered_; }        // an event was part of an answer, or longer than is read
  bool ended() const { return ended_ || unread_; }   // the API's own end was there, or an error, or the last event is not known
  size_t held() const { return held_.capacity(); }

 private:
  void judge(std::string_view data);
  bool worth_reading(std::string_view data) const;
  bool named_error() const;
  void flush(std::string &out);

  const api spoken_;
  const std::string_view key_;
  const size_t most_;
  event_reader reader_;
  std::string held_;                 // the event that is not complete
  bool answered_ = false, ended_ = false, unread_ = false;
  bool secret_ = false;              // the held event may not show the key
  bool loose_ = false;               // inside an event that passes unread
  bool at_line_start_ = true, after_cr_ = false;
};

}  // namespace hive::providers
