#include "hivenet_bench/process_cpu.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

namespace hive::bench {

result<uint64_t> cpu_ticks(std::string_view stat) {
  // The name in field 2 may hold blanks and parentheses of its own: what counts is the last one.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return fail(errc::corrupt, "no process name in parentheses");
  size_t at = name_end + 1;
  uint64_t total = 0;
  for (int field = 3; field <= 15; ++field) {
    at = stat.find_first_not_of(" \n", at);
    if (at == std::string_view::npos) return fail(errc::corrupt, "ends before field " + std::to_string(field));
    const size_t end = std::min(stat.find_first_of(" \n", at), stat.size());
    if (field >= 14) {
      uint64_t ticks = 0;
      const auto [stop, error] = std::from_chars(stat.data() + at, stat.data() + end, ticks);
      if (error != std::errc() || stop != stat.data() + end)
        return fail(errc::corrupt, "field " + std::to_string(field) + " is no number: " + std::string(stat.substr(at, end - at)));
      total += ticks;
    }
    at = end;
  }
  return total;
}

result<uint64_t> process_cpu_us(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (text.empty()) return fail(errc::not_found, "there is no such process", path);
  const auto ticks = cpu_ticks(text);
  if (!ticks) return ticks.why().at(path);
  static const auto per_second = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  return *ticks * 1'000'000 / per_second;
}

}  // namespace hive::bench
