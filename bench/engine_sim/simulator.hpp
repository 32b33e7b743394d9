// The simulator's HTTP face: the routes of OpenAI's and Anthropic's APIs that vLLM has, its metrics page, fault switches under /sim. One loop, no lock.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine_sim/model.hpp"
#include "http/server.hpp"

namespace hive::sim {

// Switches, set as JSON by POST /sim/faults; {} turns all off.
struct faults {
  std::string health = "ok";      // ok | starting | down | hang | missing
  std::optional<std::vector<std::string>> models;  // list these; chats still want one of the real ones
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

  bool of_requests() const { return status != 0 || hang || close_at_once || cut_after >= 0 || error_after >= 0 || hold_after >= 0 || role_only; }
};

void reply(http::exchange &, int status, std::string_view type, std::string_view body, std::vector<http::field> more = {});
// Answers, or leaves unanswered, as the faults say; false when they say nothing of it.
bool answer_faulty(http::exchange &, const faults &);
void refuse_model(http::exchange &);

struct simulator_options {
  std::vector<std::string> models = {"sim-model"};
  uint32_t default_tokens = 16;
  std::string word = "token ";
  bool stamp = false;              // each event begins with a comment line ": @NS", the monotonic time it was made
  model_options model;
};

class simulator final : public http::service {
 public:
  simulator(loop &, const simulator_options &);
  void on_request(http::exchange &) override;
  std::string refusal_body(int, std::string_view what) override;

 private:
  friend class generation;
  friend class instant;
  friend class sim_control;
  std::string metrics_page() const;
  std::string models_page() const;
  std::string state_page() const;
  void set_faults(std::string_view json, std::string &error);
  // Counts and notes a request; its faults are those of the moment it came.
  std::optional<faults> take_request(http::exchange &, const std::string &body);
  bool knows(const std::string &model) const;

  loop &loop_;
  simulator_options options_;
  engine_model model_;
  faults faults_;
  uint64_t chats_ = 0, served_ = 0, gone_ = 0, written_ = 0;
  std::deque<std::string> last_requests_;  // JSON texts, newest last
};

}  // namespace hive::sim
