// What a provider's answer other than 200 means for the client. The provider's own words go to the log only: they may tell of
// the router's account. Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hive::providers {

struct refusal {
  bool client = false;          // the client's mistake: its status is passed on and asking again is of no use; never the account's
  bool context = false;         // likewise: the prompt is too long
  uint64_t retry_after_s = 0;   // 0 = the provider said nothing
  std::string message;          // for the client
};
refusal judge_refusal(std::string_view engine, int status, std::string_view body, std::string_view retry_after);

// The provider's key may not be shown: `[key]` stands in its place.
void hide_key(std::string &text, std::string_view key);

// One line of at most 512 bytes for the log, without control characters and without `key`.
std::string for_log(std::string_view text, std::string_view key);

}  // namespace hive::providers
