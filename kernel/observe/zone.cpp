#include "observe/zone.hpp"

#include <date/tz.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string_view>

namespace hive::observe {

result<zone> zone::named(const std::string &name) {
  zone out;
  try {
    out.rules_ = date::locate_zone(name);
  } catch (const std::exception &) {
    return fail(errc::not_found, "there is no time zone \"" + name + "\" on this machine; write one like Europe/Rome or UTC, and see that tzdata is installed");
  }
  return out;
}

int zone::offset_at(int64_t unix_s) const {
  if (rules_ == nullptr) return 0;
  try {
    const date::sys_seconds when{std::chrono::seconds(unix_s)};
    return static_cast<int>(static_cast<const date::time_zone *>(rules_)->get_info(when).offset.count());
  } catch (const std::exception &) {
    return 0;
  }
}

void zone::append_time(std::string &out, uint64_t unix_ms) const {
  char text[most_time_bytes];
  out.append(text, write_time(text, unix_ms));
}

size_t zone::write_time(char *out, uint64_t unix_ms) const {
  struct kept_second {
    const void *rules = nullptr;
    int64_t second = -1;
    char text[most_time_bytes] = {};    // "2026-11-30T02:02:03" and "+01:00", one after the other
    size_t time_length = 0, length = 0;
  };
  static thread_local kept_second kept;
  const auto second = static_cast<int64_t>(unix_ms / 1000);
  if (kept.second != second || kept.rules != rules_) {
    const int offset = offset_at(second);
    const time_t shifted = static_cast<time_t>(second + offset);
    tm parts;
    gmtime_r(&shifted, &parts);
    kept.time_length = std::strftime(kept.text, sizeof kept.text, "%Y-%m-%dT%H:%M:%S", &parts);
    const int minutes = (offset < 0 ? -offset : offset) / 60;
    const int n = std::snprintf(kept.text + kept.time_length, sizeof kept.text - kept.time_length, "%c%02d:%02d", offset < 0 ? '-' : '+',
                                minutes / 60 % 100, minutes % 60);
    kept.length = kept.time_length + static_cast<size_t>(n);
    kept.rules = rules_;
    kept.second = second;
  }
  std::memcpy(out, kept.text, kept.time_length);
  const auto ms = static_cast<unsigned>(unix_ms % 1000);
  const char fraction[] = {'.', static_cast<char>('0' + ms / 100), static_cast<char>('0' + ms / 10 % 10), static_cast<char>('0' + ms % 10)};
  std::memcpy(out + kept.time_length, fraction, sizeof fraction);
  std::memcpy(out + kept.time_length + sizeof fraction, kept.text + kept.time_length, kept.length - kept.time_length);
  return kept.length + sizeof fraction;
}

}  // namespace hive::observe
