// The rules of abi/storage.h that every backend must keep the same way: sizes, expiry, the ADD arithmetic, and words for
// a refusal. Pure functions, any thread.
#pragma once

#include "hive/abi/storage.h"

#include <cstring>
#include <ctime>
#include <limits>
#include <string>
#include <string_view>

namespace hive::sdk {

inline constexpr std::size_t max_key_bytes = 1024;
inline constexpr std::size_t max_value_bytes = 16u << 20;
// Operations in one write: a bound on the work of one transaction.
inline constexpr std::size_t max_write_ops = 100'000;

inline std::string_view view(hive_str s) { return {s.ptr, s.len}; }
inline std::string_view view(hive_bytes b) { return {reinterpret_cast<const char *>(b.ptr), b.len}; }
inline hive_bytes bytes(std::string_view s) { return {reinterpret_cast<const uint8_t *>(s.data()), s.size()}; }
inline hive_str text(std::string_view s) { return {s.data(), s.size()}; }

// Leaves the words with the caller, if it wants them, and answers the code.
inline hive_status refuse(const hive_error_sink *err, hive_status code, std::string_view words) {
  if (err && err->set) err->set(err->ctx, code, text(words));
  return code;
}

// Expiry is a date, so it is read from the wall clock, which may step. Milliseconds since 1970.
inline std::uint64_t unix_ms() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

inline bool expired(std::uint64_t expires_unix_ms, std::uint64_t now_unix_ms) {
  return expires_unix_ms != 0 && expires_unix_ms <= now_unix_ms;
}

inline bool key_ok(hive_bytes key) { return key.ptr && key.len >= 1 && key.len <= max_key_bytes; }

// Deadlines are monotonic nanoseconds; 0 = none.
inline bool late(const hive_host *host, std::uint64_t deadline_ns) {
  return deadline_ns != 0 && host && host->now_ns && host->now_ns(host) >= deadline_ns;
}

// HIVE_OK, or HIVE_E_ARGUMENT and a text that names the operation by its place.
inline hive_status check_writes(hive_write *const *ops, std::size_t count, const hive_error_sink *err) {
  if (count > max_write_ops)
    return refuse(err, HIVE_E_ARGUMENT, "a write holds " + std::to_string(count) + " operations, at most " +
                                            std::to_string(max_write_ops) + " are allowed");
  for (std::size_t i = 0; i < count; ++i) {
    const hive_write *op = ops[i];
    std::string why;
    if (!op || !HIVE_HAS(hive_write, op, result)) why = "is missing or too short a struct";
    else if (!key_ok(op->key)) why = "has a key of " + std::to_string(op->key.len) + " bytes; 1 to 1024 are allowed";
    else if (op->op < HIVE_WRITE_PUT || op->op > HIVE_WRITE_ADD) why = "is of unknown kind " + std::to_string(op->op);
    else if (op->op == HIVE_WRITE_PUT && op->value.len > max_value_bytes)
      why = "has a value of " + std::to_string(op->value.len) + " bytes; at most 16 MiB are allowed";
    else if (op->op == HIVE_WRITE_PUT && op->value.len && !op->value.ptr) why = "has a value without bytes";
    if (!why.empty()) return refuse(err, HIVE_E_ARGUMENT, "write operation " + std::to_string(i) + " " + why);
  }
  return HIVE_OK;
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

// `current` is the live value of the key, null when there is none. HIVE_E_ARGUMENT when it is no counter, or when the sum
// leaves int64.
inline hive_status add_int64(const std::string_view *current, std::int64_t delta, std::int64_t &sum, const hive_error_sink *err) {
  if (current && current->size() != 8)
    return refuse(err, HIVE_E_ARGUMENT, "ADD on a record of " + std::to_string(current->size()) + " bytes; a counter has 8");
  if (__builtin_add_overflow(current ? decode_int64(*current) : 0, delta, &sum))
    return refuse(err, HIVE_E_ARGUMENT, "ADD would leave the range of int64; the record is unchanged");
  return HIVE_OK;
}

// Fills the caller's struct as far as the caller knows it.
inline hive_status give_stats(hive_storage_stats *out, hive_storage_stats mine) {
  if (!out || out->struct_size < sizeof(std::uint32_t) * 2) return HIVE_E_ARGUMENT;
  mine.struct_size = out->struct_size;
  std::memcpy(out, &mine, out->struct_size < sizeof mine ? out->struct_size : sizeof mine);
  return HIVE_OK;
}

}  // namespace hive::sdk
