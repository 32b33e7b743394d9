// What an operation answers: a code, words for a person, and where (a config path, a file and line, a plugin's name).
// Returned by value, never thrown; an empty message means ok. Any thread.
#pragma once

#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace hive {

enum class errc : int {
  ok = 0,
  invalid,       // the caller's input is wrong
  not_found,
  conflict,      // already exists, or somebody else owns it
  denied,
  exhausted,     // a bound was reached
  unavailable,   // may work later
  timeout,
  corrupt,
  unsupported,
  cancelled,
  internal,      // our bug
};

std::string_view to_string(errc c);

class [[nodiscard]] status {
 public:
  status() = default;
  status(errc c, std::string message, std::string path = {})
      : code_(c), message_(std::move(message)), path_(std::move(path)) {}

  bool ok() const { return code_ == errc::ok; }
  explicit operator bool() const { return ok(); }
  errc code() const { return code_; }
  const std::string &message() const { return message_; }
  const std::string &path() const { return path_; }
  // "path: message", or the message alone.
  std::string text() const;
  // The same status with `prefix` in front of its path ("plugins" + "dirs[0]" = "plugins.dirs[0]").
  status at(std::string_view prefix) const;

 private:
  errc code_ = errc::ok;
  std::string message_;
  std::string path_;
};

inline status fail(errc c, std::string message, std::string path = {}) {
  return status(c, std::move(message), std::move(path));
}

// A value, or the status that says why there is none.
template <class T>
class [[nodiscard]] result {
 public:
  result(T value) : value_(std::move(value)) {}
  result(status why) : status_(std::move(why)) { assert(!status_.ok()); }

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const status &why() const { return status_; }
  T &operator*() & { return *value_; }
  const T &operator*() const & { return *value_; }
  T &&operator*() && { return std::move(*value_); }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  status status_;
};

}  // namespace hive
