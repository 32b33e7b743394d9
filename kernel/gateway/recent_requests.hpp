// The last requests that were meant for an engine, by their id: what was asked, as far as routing went by it, and what became of
// it. No text of a prompt or an answer. A ring whose entries keep their memory, so adding allocates nothing once it is warm.
// Any thread; the lock is held for one copy.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/telemetry.hpp"

namespace hive::gateway {

// Of one request, all but its texts.
struct recent_facts {
  ended how = ended::completed;
  int status = 0;
  bool streaming = false;
  uint32_t attempts = 0;
  uint64_t started_unix_ms = 0;
  uint64_t duration_ns = 0;
  uint64_t queue_ns = 0;
  uint64_t estimated_prompt_tokens = 0;
  uint64_t declared_output_tokens = 0;  // over all choices and prompts; 0 = none was
};

struct recent_request : recent_facts {
  std::string request_id;
  std::string route;          // label
  std::string model;
  std::string tenant;
  std::string agent;          // of the last attempt; "" = none was made
  std::string step;
  std::string error_code;
};

class recent_requests {
 public:
  explicit recent_requests(size_t most) : ring_(most) {}
  void add(const request_record &);     // of an inference request; others are passed over
  // The latest with that id.
  std::optional<recent_request> find(std::string_view request_id) const;
  size_t room() const { return ring_.size(); }

 private:
  // The texts behind each other, in the order of recent_request: an entry is written once in a long while, when nothing of it is
  // in any cache, so it is kept in few lines.
  struct entry : recent_facts {
    std::array<uint16_t, 7> lengths{};
    std::string texts;
  };

  mutable std::mutex mutex_;
  std::vector<entry> ring_;
  size_t next_ = 0;
};

}  // namespace hive::gateway
