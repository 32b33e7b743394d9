// The rules of abi/storage.h that every backend must keep the same way: sizes, expiry, the arithmetic of ADD. Pure
// functions, any thread; they throw `failure` with the words for the host.
#pragma once

#include "hive/sdk/core.hpp"

#include <ctime>
#include <optional>

namespace hive::sdk {

inline constexpr std::size_t max_key_bytes = 1024;
inline constexpr std::size_t max_value_bytes = 16u << 20;
// Operations in one write: a bound on the work of one transaction.
inline constexpr std::size_t max_write_ops = 100'000;

// Expiry is a date, so it is read from the wall clock, which may step. Milliseconds since 1970.
inline std::uint64_t unix_ms() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

inline bool expired(std::uint64_t expires_unix_ms, std::uint64_t now_unix_ms) {
  return expires_unix_ms != 0 && expires_unix_ms <= now_unix_ms;
}

inline bool key_ok(std::string_view key) { return !key.empty() && key.size() <= max_key_bytes; }

// Deadlines are monotonic nanoseconds; 0 = none.
inline bool late(const host &h, std::uint64_t deadline_ns) { return deadline_ns != 0 && h.now_ns() >= deadline_ns; }

// Throws HIVE_E_ARGUMENT with a text that names the operation by its place.
inline void check_writes(std::span<hive_write *const> ops) {
  if (ops.size() > max_write_ops)
    throw failure(HIVE_E_ARGUMENT, "a write holds " + std::to_string(ops.size()) + " operations; at most " +
                                       std::to_string(max_write_ops) + " are allowed");
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const hive_write *op = ops[i];
    std::string why;
    if (!op || !HIVE_HAS(hive_write, op, result)) why = "is missing or too short a struct";
    else if (!key_ok(view(op->key))) why = "has a key of " + std::to_string(op->key.len) + " bytes; 1 to 1024 are allowed";
    else if (op->op < HIVE_WRITE_PUT || op->op > HIVE_WRITE_ADD) why = "is of unknown kind " + std::to_string(op->op);
    else if (op->op == HIVE_WRITE_PUT && op->value.len > max_value_bytes)
      why = "has a value of " + std::to_string(op->value.len) + " bytes; at most 16 MiB are allowed";
    if (!why.empty()) throw failure(HIVE_E_ARGUMENT, "write operation " + std::to_string(i) + " " + why);
  }
}

// A counter record is an int64 of 8 bytes, little endian.
inline std::string encode_int64(std::int64_t value) {
  std::string out(8, '\0');
  auto bits = static_cast<std::uint64_t>(value);
  for (char &c : out) c = static_cast<char>(bits & 0xff), bits >>= 8;
  return out;
}

inline std::int64_t decode_int64(std::string_view eight) {
  std::uint64_t bits = 0;
  for (int i = 7; i >= 0; --i) bits = bits << 8 | static_cast<unsigned char>(eight[static_cast<std::size_t>(i)]);
  return static_cast<std::int64_t>(bits);
}

// The sum an ADD stores; `current` is the live value of the key, absent when there is none. Throws HIVE_E_ARGUMENT when
// it is no counter, or when the sum leaves int64.
inline std::int64_t add_int64(std::optional<std::string_view> current, std::int64_t delta) {
  if (current && current->size() != 8)
    throw failure(HIVE_E_ARGUMENT, "ADD on a record of " + std::to_string(current->size()) + " bytes; a counter has 8");
  std::int64_t sum = 0;
  if (__builtin_add_overflow(current ? decode_int64(*current) : 0, delta, &sum))
    throw failure(HIVE_E_ARGUMENT, "ADD would leave the range of int64; the record is unchanged");
  return sum;
}

}  // namespace hive::sdk
