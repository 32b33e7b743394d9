// The value of hexadecimal digits. Pure, any thread.
#pragma once

namespace hive {

// Of a digit in either case, else -1.
constexpr int hex_value(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Of four digits in a row, as an escape of JSON has them, else -1. Reads four bytes.
constexpr int hex4_value(const char *p) {
  int value = 0;
  for (int i = 0; i < 4; ++i) {
    const int digit = hex_value(p[i]);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

}  // namespace hive
