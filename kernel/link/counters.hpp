// What a hub counts. Its loop writes; any thread reads, each number by itself.
#pragma once

#include "base/tally.hpp"

namespace hive::link {

struct outbox_counters {
  tally records, frames, bytes;
};

struct hub_counters {
  tally links_open, links_welcomed, links_lost, kicked, auth_failures, renewals;
  tally streams_opened, streams_open, streams_closing;
  tally slots_held;               // streams that still hold what they were opened with
  tally late_records, protocol_errors;
  outbox_counters in, out;
};

}  // namespace hive::link
