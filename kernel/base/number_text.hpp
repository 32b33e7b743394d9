// Pure, any thread.
#pragma once

#include <charconv>
#include <string>

namespace hive {

// The shortest text that reads back as the same number.
inline std::string shortest(double v) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, v).ptr};
}

}  // namespace hive
