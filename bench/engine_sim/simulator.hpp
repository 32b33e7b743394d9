// The simulator's HTTP face: OpenAI routes, vLLM's metrics page, fault switches under /sim. One loop, no lock.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "engine_sim/model.hpp"
#include "http/server.hpp"

namespace hive::sim {

// Switches, set as JSON by POST /sim/faults; {} turns all off.
struct faults {
  std::string health = "ok";      // ok | starting | down | hang
  int status = 0;                 // answer chats with this status...
  std::string body;               // ...and this body
  int retry_after = -1;
  bool hang = false;              // accept the request, never answer
  bool close_at_once = false;     // close without a byte
  int cut_after = -1;             // end the connection after so many events, without a clean end
  int error_after = -1;           // an error event after so many events, then a clean end
  int hold_after = -1;            // after so many events nothing more, and no end
  bool role_only = false;         // the first event carries no content, then it hangs
  int count = -1;                 // so many requests are faulty, then none; -1 = all
};

struct simulator_options {
  std::vector<std::string> models = {"sim-model"};
  uint32_t default_tokens = 16;
  std::string word = "token ";
  model_options model;
};

class simulator final : public http::service {
 public:
  simulator(loop &, const simulator_options &);
  void on_request(http::exchange &) override;
  std::string refusal_body(int, std::string_view what) override;

 private:
  friend class chat;
  friend class sim_control;
  std::string metrics_page() const;
  std::string models_page() const;
  std::string state_page() const;
  void set_faults(std::string_view json, std::string &error);
  bool faulty();

  loop &loop_;
  simulator_options options_;
  engine_model model_;
  faults faults_;
  uint64_t chats_ = 0, served_ = 0, gone_ = 0, written_ = 0;
  std::deque<std::string> last_requests_;  // JSON texts, newest last
};

}  // namespace hive::sim
