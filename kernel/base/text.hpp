// Text forms of ids and numbers: hex, base58, UUID, RFC 3339, durations, nearest name. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hive {

std::string to_hex(std::span<const uint8_t> bytes);
std::optional<std::vector<uint8_t>> from_hex(std::string_view text);
// Bitcoin alphabet, no padding; a leading zero byte is a '1'.
std::string to_base58(std::span<const uint8_t> bytes);

// A random version 4 UUID, 36 characters, from the system's random source, of which each thread keeps 4 KiB ahead. For ids,
// never for secrets: what is ahead lies in memory.
std::string make_uuid();
// 36-character or 32-digit hexadecimal form, any version.
bool is_uuid(std::string_view text);

std::string rfc3339_ms(uint64_t unix_ms);  // 2026-11-30T01:02:03.004Z

// Go-style durations: 500ms, 5s, 2m, 1h30m, 1.5s; units ns us ms s m h. A bare 0 is allowed, a sign is not.
std::optional<uint64_t> parse_duration_ns(std::string_view text);
std::string format_duration(uint64_t ns);

std::string_view trim(std::string_view text);  // ASCII white space at both ends
std::vector<std::string> split_trimmed(std::string_view text, char separator);
bool iequals(std::string_view a, std::string_view b);  // ASCII case folded
std::string lower(std::string_view text);

// The name with the smallest edit distance, if that is at most a third of its length (at least 2).
std::string nearest(std::string_view name, std::span<const std::string> names);

// For unordered containers of texts: lookup by a view, without a copy.
struct text_hash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
};

}  // namespace hive
