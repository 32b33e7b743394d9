// What a hub counts. Its loop writes; any thread reads, each number by itself.
#pragma once

#include <cstddef>
#include <iterator>
#include <string_view>

#include "base/tally.hpp"

namespace hive::link {

struct outbox_counters {
  tally records, frames, bytes;
};

// Why a connection did not become a link, in the order of hub_counters::rejected. The last one is what has no name here.
inline constexpr std::string_view rejection_reasons[] = {"strangers", "strangers_per_address", "timeout", "bad_secret", "hello", "version",
                                                         "metadata", "duplicate", "revoked", "unlisted", "protocol", "other"};
constexpr size_t rejection_of(std::string_view reason) {
  size_t i = 0;
  while (i + 1 < std::size(rejection_reasons) && rejection_reasons[i] != reason) ++i;
  return i;
}

struct hub_counters {
  tally links_open, links_welcomed, links_lost, kicked, auth_failures, renewals;
  tally streams_opened, streams_open, streams_closing;
  tally slots_held;               // streams that still hold what they were opened with
  tally late_records, protocol_errors;
  outbox_counters in, out;
  tally rejected[std::size(rejection_reasons)];
};

}  // namespace hive::link
