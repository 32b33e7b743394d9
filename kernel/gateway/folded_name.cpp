#include "gateway/folded_name.hpp"

namespace hive::gateway {

namespace {
constexpr size_t longest_name = 3 * 32;   // three bytes for each letter
constexpr std::string_view long_s = "\xc5\xbf", kelvin = "\xe2\x84\xaa";
}  // namespace

std::string folded(std::string_view name) {
  std::string out;
  if (name.size() > longest_name) return out;
  while (!name.empty()) {
    size_t taken = 1;
    if (name.starts_with(long_s)) {
      out += 's';
      taken = long_s.size();
    } else if (name.starts_with(kelvin)) {
      out += 'k';
      taken = kelvin.size();
    } else {
      const char c = name.front();
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    name.remove_prefix(taken);
  }
  return out;
}

}  // namespace hive::gateway
