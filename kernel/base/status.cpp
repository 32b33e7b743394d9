#include "base/status.hpp"

namespace hive {

std::string_view to_string(errc c) {
  switch (c) {
    case errc::ok: return "ok";
    case errc::invalid: return "invalid";
    case errc::not_found: return "not_found";
    case errc::conflict: return "conflict";
    case errc::denied: return "denied";
    case errc::exhausted: return "exhausted";
    case errc::unavailable: return "unavailable";
    case errc::timeout: return "timeout";
    case errc::corrupt: return "corrupt";
    case errc::unsupported: return "unsupported";
    case errc::cancelled: return "cancelled";
    case errc::internal: return "internal";
  }
  return "unknown";
}

std::string status::text() const {
  if (path_.empty()) return message_;
  return path_ + ": " + message_;
}

status status::at(std::string_view prefix) const {
  if (ok() || prefix.empty()) return *this;
  std::string path(prefix);
  if (!path_.empty() && path_.front() != '[') path += '.';
  path += path_;
  return status(code_, message_, std::move(path));
}

}  // namespace hive
