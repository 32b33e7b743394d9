#include "tenancy/instant.hpp"

#include <charconv>
#include <chrono>
#include <string>

namespace hive::tenancy {

namespace {

// Takes `digits` digits off the front, which must be there.
bool take(std::string_view &text, size_t digits, int &value) {
  if (text.size() < digits) return false;
  for (size_t i = 0; i < digits; ++i)
    if (text[i] < '0' || text[i] > '9') return false;
  std::from_chars(text.data(), text.data() + digits, value);
  text.remove_prefix(digits);
  return true;
}

bool take(std::string_view &text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// ".5", ".123456": at least one digit; in milliseconds.
bool take_fraction(std::string_view &text, int &ms) {
  if (!take(text, ".")) return true;
  int unit = 100;
  size_t digits = 0;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; ++digits, unit /= 10) {
    ms += (text.front() - '0') * unit;
    text.remove_prefix(1);
  }
  return digits > 0;
}

bool take_offset(std::string_view &text, int &minutes) {
  if (take(text, "zZ")) return true;
  const bool west = text.starts_with('-');
  int hours = 0;
  if (!take(text, "+-") || !take(text, 2, hours) || !take(text, ":") || !take(text, 2, minutes) || hours > 23 || minutes > 59) return false;
  minutes = (hours * 60 + minutes) * (west ? -1 : 1);
  return true;
}

}  // namespace

result<uint64_t> parse_instant(std::string_view text) {
  const auto wrong = [written = std::string(text.substr(0, 40))] {
    return fail(errc::invalid, "\"" + written + "\" is no instant; write it as 2027-01-31T12:00:00Z");
  };
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, ms = 0, offset = 0;
  if (!take(text, 4, year) || !take(text, "-") || !take(text, 2, month) || !take(text, "-") || !take(text, 2, day) || !take(text, "tT ") ||
      !take(text, 2, hour) || !take(text, ":") || !take(text, 2, minute) || !take(text, ":") || !take(text, 2, second) ||
      !take_fraction(text, ms) || !take_offset(text, offset) || !text.empty())
    return wrong();
  namespace chrono = std::chrono;
  const chrono::year_month_day date{chrono::year(year), chrono::month(static_cast<unsigned>(month)), chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || hour > 23 || minute > 59 || second > 59) return wrong();
  const auto at = chrono::sys_days(date) + chrono::hours(hour) + chrono::minutes(minute - offset) + chrono::seconds(second);
  const int64_t unix = chrono::duration_cast<chrono::milliseconds>(at.time_since_epoch()).count() + ms;
  if (unix < 0) return wrong();
  return static_cast<uint64_t>(unix);
}

}  // namespace hive::tenancy
