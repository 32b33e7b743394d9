// A time zone by its IANA name, for times that people read. Immutable, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.hpp"

namespace hive::observe {

class zone {
 public:
  zone() = default;                                   // UTC
  static result<zone> named(const std::string &name); // not_found: no such zone on this machine

  // Seconds east of UTC at that instant.
  int offset_at(int64_t unix_s) const;
  // Appends 2026-11-30T02:02:03.004+01:00 (RFC 3339, always with an offset). The second's text is kept a thread.
  void append_time(std::string &out, uint64_t unix_ms) const;
  // The same to a buffer of at least `most_time_bytes`; answers how many it wrote.
  size_t write_time(char *out, uint64_t unix_ms) const;
  static constexpr size_t most_time_bytes = 48;

 private:
  const void *rules_ = nullptr;   // of the process-wide database; null = UTC
};

}  // namespace hive::observe
