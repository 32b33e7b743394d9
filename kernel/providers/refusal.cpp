#include "providers/refusal.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/text.hpp"
#include "providers/json_read.hpp"

namespace hive::providers {

namespace {

constexpr uint64_t longest_wait_s = 60;

bool mentions(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

// Credit, the organisation, what the key may do: both providers answer some of it with 400. Their error's own type, code and words
// are judged, not the whole body, where a client's text may stand.
bool about_the_account(std::string_view body) {
  const auto read = read_object(body, "the error");
  const json::object *error = read ? object_in(*read, "error") : nullptr;
  if (error == nullptr) return false;
  for (const char *name : {"type", "code"}) {
    const std::string kind = lower(text_in(*error, name));
    for (const std::string_view one : {"authentication_error", "permission_error", "billing_error", "insufficient_quota", "insufficient_permissions",
                                       "billing_not_active", "billing_hard_limit_reached", "account_deactivated", "invalid_organization",
                                       "organization_disabled", "access_terminated", "unsupported_country_region_territory"})
      if (kind == one) return true;
  }
  const std::string words = lower(text_in(*error, "message").substr(0, 1024));
  for (const std::string_view one : {"credit balance", "your credit", "billing", "your account", "your organization", "your organisation",
                                     "this organization", "this organisation", "your plan", "your api key", "this api key",
                                     "do not have permission", "don't have permission", "does not have permission", "not have access", "do not have access"})
    if (mentions(words, one)) return true;
  return false;
}

}  // namespace

refusal judge_refusal(std::string_view engine, int status, std::string_view body, std::string_view retry_after) {
  refusal out;
  out.message = "provider " + std::string(engine) + " answered HTTP " + std::to_string(status);
  uint64_t seconds = 0;
  if (std::from_chars(retry_after.data(), retry_after.data() + retry_after.size(), seconds).ec == std::errc())
    out.retry_after_s = std::clamp<uint64_t>(seconds, 1, longest_wait_s);
  // 401, 403 and 404 are about the router's key and the policy's model, not about the request.
  if (status != 400 && status != 413 && status != 422) return out;
  if (about_the_account(body)) {
    out.message += ": the router's account with it does not allow this";
    return out;
  }
  out.client = true;
  const std::string words = lower(body.substr(0, 4096));
  out.context = mentions(words, "prompt is too long") || mentions(words, "context_length_exceeded") ||
                (mentions(words, "context") && (mentions(words, "length") || mentions(words, "window")));
  // Claude Code compacts and goes on when it reads these words.
  out.message += out.context ? ": prompt is too long" : ": it does not accept the request";
  return out;
}

void hide_key(std::string &text, std::string_view key) {
  constexpr std::string_view hidden = "[key]";
  if (key.empty()) return;
  for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + hidden.size())) text.replace(at, key.size(), hidden);
}

std::string for_log(std::string_view text, std::string_view key) {
  constexpr size_t most = 512;
  std::string out(text.substr(0, 16 * most));
  hide_key(out, key);
  out.resize(std::min(out.size(), most));
  for (char &c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return out;
}

}  // namespace hive::providers
