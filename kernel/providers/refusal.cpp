#include "providers/refusal.hpp"

#include <algorithm>
#include <charconv>
#include <cctype>

#include "providers/json_read.hpp"

namespace hive::providers {

namespace {

constexpr uint64_t longest_wait_s = 60;

bool mentions(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

}  // namespace

refusal judge_refusal(std::string_view engine, int status, std::string_view body, std::string_view retry_after) {
  refusal out;
  out.message = "provider " + std::string(engine) + " answered HTTP " + std::to_string(status);
  uint64_t seconds = 0;
  if (std::from_chars(retry_after.data(), retry_after.data() + retry_after.size(), seconds).ec == std::errc())
    out.retry_after_s = std::clamp<uint64_t>(seconds, 1, longest_wait_s);
  // 401, 403 and 404 are about the router's key and the policy's model, not about the request.
  if (status != 400 && status != 413 && status != 422) return out;
  out.client = true;
  std::string words(body.substr(0, 4096));
  std::transform(words.begin(), words.end(), words.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  out.context = mentions(words, "prompt is too long") || mentions(words, "context_length_exceeded") ||
                (mentions(words, "context") && (mentions(words, "length") || mentions(words, "window")));
  // Claude Code compacts and goes on when it reads these words.
  out.message += out.context ? ": prompt is too long" : ": it does not accept the request";
  return out;
}

std::string for_log(std::string_view text, std::string_view key) {
  constexpr size_t most = 512;
  constexpr std::string_view hidden = "[key]";
  std::string out(text.substr(0, 16 * most));
  if (!key.empty())
    for (size_t at = out.find(key); at != std::string::npos; at = out.find(key, at + hidden.size())) out.replace(at, key.size(), hidden);
  out.resize(std::min(out.size(), most));
  for (char &c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return out;
}

}  // namespace hive::providers
