// One page of the engine on its way: what the detector and the control half ask. Control loop only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "hive/abi/engine.h"
#include "http/client.hpp"

namespace hive::agent {

// What one page answered; `status` 0 = nothing, then `trouble` says why.
struct page_answer {
  uint32_t status = 0;
  std::string body;
  std::string server;       // the Server header
  std::string trouble;
  bool timed_out = false;   // not answered within the page's time, as against refused or cut
  bool answered() const { return status != 0; }
};

// Destroying it ends the request. A page past `most_bytes` is cut between two lines, so that no number is cut in two.
class page_fetch final : private http::call_events {
 public:
  using done_fn = std::function<void(page_answer)>;  // called once, never from inside the constructor; may destroy this
  page_fetch(http::client &, const hive_page &, uint64_t limit_ns, size_t most_bytes, done_fn);

 private:
  void on_head(const http::response_head &) override;
  void on_data(std::string_view) override;
  void on_end() override { finish(); }
  void on_failed(const http::call_failure &) override;
  void finish();

  const size_t most_bytes_;
  done_fn done_;
  page_answer answer_;
  bool cut_ = false;
  std::unique_ptr<http::call> call_;
};

}  // namespace hive::agent
