// Cuts a body of server-sent events into events: LF, CR and CRLF also split over two reads, BOM, comments, data over several
// lines. Names are not kept: both APIs repeat them in the data. Bounded by max_event. One body an instance, one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace hive::providers {

class event_reader {
 public:
  static constexpr size_t max_event = 4 << 20;

  // `take(data)` answers a status for every event with data; the first error ends the reading.
  template <class F>
  status feed(std::string_view bytes, F &&take) {
    while (!bytes.empty()) {
      if (skip_lf_ && bytes.front() == '\n') bytes.remove_prefix(1);
      skip_lf_ = false;
      const size_t end = bytes.find_first_of("\r\n");
      line_.append(bytes.substr(0, end));
      if (line_.size() + data_.size() > max_event) return fail(errc::exhausted, "an event is larger than 4 MiB");
      if (end == std::string_view::npos) return {};
      skip_lf_ = bytes[end] == '\r';
      bytes.remove_prefix(end + 1);
      if (end_line())
        if (const status s = dispatch(take); !s) return s;
    }
    return {};
  }
  // The body is over: some servers leave out the last empty line.
  template <class F>
  status end(F &&take) {
    if (!line_.empty()) end_line();
    return has_data_ ? dispatch(take) : status();
  }

 private:
  bool end_line();  // true: it ended an event with data
  template <class F>
  status dispatch(F &&take) {
    const status s = take(std::string_view(data_));
    data_.clear();
    has_data_ = false;
    return s;
  }

  std::string line_, data_;
  bool has_data_ = false, skip_lf_ = false, first_ = true;
};

}  // namespace hive::providers
