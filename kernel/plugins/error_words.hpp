// Why a call into a plugin failed: the words it put into its error sink, and our code for the status it answered.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "base/status.hpp"
#include "hive/abi/plugin.h"

namespace hive::plugins {

inline errc code_of(hive_status s) {
  switch (s) {
    case HIVE_E_CONFIG:
    case HIVE_E_ARGUMENT: return errc::invalid;
    case HIVE_E_UNSUPPORTED: return errc::unsupported;
    case HIVE_E_TIMEOUT: return errc::timeout;
    case HIVE_E_UNAVAILABLE: return errc::unavailable;
    case HIVE_E_CORRUPT: return errc::corrupt;
    case HIVE_E_EXHAUSTED: return errc::exhausted;
  }
  return errc::internal;
}

// The sink of one call on this thread's stack. Keeps the last words, at most 4 KiB of them.
class error_words {
 public:
  error_words() = default;
  error_words(const error_words &) = delete;
  error_words &operator=(const error_words &) = delete;

  const hive_error_sink *sink() const { return &sink_; }
  // The plugin's words, else ours.
  std::string or_else(std::string ours) const { return text_.empty() ? std::move(ours) : text_; }
  std::string or_status(hive_status s) const { return or_else("status " + std::to_string(s)); }

 private:
  static constexpr size_t most = 4096;
  std::string text_;
  hive_error_sink sink_{sizeof(hive_error_sink), 0, this, [](void *ctx, hive_status, hive_str m) noexcept {
                          if (m.ptr != nullptr) static_cast<error_words *>(ctx)->text_.assign(m.ptr, std::min(m.len, most));
                        }};
};

}  // namespace hive::plugins
