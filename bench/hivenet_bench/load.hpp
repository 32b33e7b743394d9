// A closed loop of requests against one server: every connection sends the same request again as soon as its answer is
// complete, for a warm-up that counts nothing and then for the measured time.
//
// One thread, all calls. Latency is that of a closed loop: while the server is slow no request is sent, so a pause of the
// server shows in few samples.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace hive::bench {

struct watched_process {
  std::string name;
  pid_t pid;
};

struct load_options {
  std::string host;                      // name or address
  std::string port;
  std::string request;                   // head and body as they go out
  size_t connections = 1;                // 1..20,000
  bool stream = false;                   // answers are SSE: count events
  bool stamped = false;                  // and hold engine_sim's time stamps: report every event's delay; same machine only
  uint64_t ramp_ns = 0;                  // connections open one after another over this time, at its beginning
  uint64_t refused_pause_ns = 0;         // after an answer that is not 2xx, before the connection asks again
  uint64_t warm_up_ns = 0;
  uint64_t measured_ns = 0;
  std::vector<watched_process> watched;  // whose CPU time is taken at both ends of the measured time
};

// What was seen between the two ends of the measured time.
struct load_report {
  double seconds = 0;
  uint64_t requests = 0;                        // complete answers with a 2xx status
  std::vector<uint64_t> latency_ns;             // of those: from the first byte out to the last byte in
  std::map<int, uint64_t> statuses;             // of all complete answers
  uint64_t connect_failed = 0;
  uint64_t closed_early = 0;                    // the connection ended before the answer did
  uint64_t malformed = 0;                       // not HTTP, or bytes past the end of an answer
  // Streams only. Events include `data: [DONE]`.
  uint64_t events = 0;                          // as they arrive, of unfinished streams too
  std::vector<uint64_t> first_event_ns;
  std::vector<uint64_t> delay_ns;               // from the engine's making of an event to its arrival here
  uint64_t fewest_events = UINT64_MAX, most_events = 0;  // in one complete stream
  uint64_t without_done = 0;                    // complete streams that did not end with [DONE]
  std::vector<uint64_t> cpu_us;                 // in the order of `watched`
  uint64_t own_cpu_us = 0;                      // of this program
};

// errc::unavailable when the server's name cannot be resolved or no connection came up, errc::not_found when a watched
// process is not there at one of the two ends.
result<load_report> run_load(const load_options &);

}  // namespace hive::bench
