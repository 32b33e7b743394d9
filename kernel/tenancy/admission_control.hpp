// Who gets in (docs/admission.md): the model's caps on one request (B1), its fleet's pressure (B3), its
// budget of tokens and requests in flight (B2), and, on serverless models, the limits of the caller's key (B4): share, output and input
// tokens a minute, in this order. What was taken comes back exactly once, however the request ends.
//
// admission_control is for any thread; an admittance belongs to one request and its loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/loop.hpp"
#include "tenancy/keyring.hpp"
#include "tenancy/minute_buckets.hpp"
#include "tenancy/occupancy.hpp"
#include "tenancy/token_estimator.hpp"

namespace hive::tenancy {

struct admission_settings {
  double fraction = 0.90;                        // of admit_budget_tokens; --admit-fraction
  uint64_t park_ns = 250 * ns_per_ms;            // --admit-park-timeout; 0 = nobody parks
  uint64_t undeclared_output = 512;              // reserved where a buffered answer's length is not declared; --admit-default-output
  bool operator==(const admission_settings &) const = default;
};

// What the model's policy and its fleet say at this moment; see admission_terms.hpp. 0 = off.
struct admission_terms {
  uint64_t max_input_tokens = 0, images_max = 0;
  uint64_t budget_tokens = 0, max_inflight = 0;  // a replica
  uint64_t replicas = 1;                         // healthy agents, at least 1
  bool serverless = false;
  bool known = false;                            // some agent serves the model or has served it, or a provider would
  std::string counted_as;                        // one name in the place of the model's, in what is counted; empty = the model's own
  std::string pressed;                           // the rule of shed_if that is violated; empty = none
};

// floor(fraction * budget * replicas), at least 1 if there is a budget at all.
uint64_t share_of_budget(double fraction, const admission_terms &);

struct admission_ask {
  std::string_view model;                        // outlives the admittance
  caller who;
  uint64_t prompt_tokens = 0;                    // the request's one estimate
  uint64_t images = 0;
  std::optional<uint64_t> declared_output;
  bool streaming = false;
  token_ratio ratio;
};

// The last three are of the key's quota (quota.hpp).
enum class refused_by : uint8_t { none, b1, b3, b2, b4_occupancy, b4_otpm, b4_itpm, b4_rpm, b4_parallel, tokens_a_day };
std::string_view to_string(refused_by);          // "b1", ..., as the label of metrics; "" for tokens_a_day, which has metrics of its own

// Codes of the HTTP API.
inline constexpr std::string_view over_rate = "rate_limit_exceeded", over_tokens = "token_limit_exceeded";

struct refusal {
  refused_by by = refused_by::none;
  std::string_view code;                         // of the error envelope; static
  std::string message;
  uint64_t retry_after_s = 0;
};

class admission_control {
 public:
  admission_control(const admission_settings &settings, const clock_source &clock)
      : settings_(settings), room_(clock), input_(clock), output_(clock) {}

  const occupancy &room() const { return room_; }
  // The terms of that model are others now: whoever parks for it has room by them, or none ever, or goes on waiting.
  void review(std::string_view model, const admission_terms &);
  // Whether anything of it concerns this request at all.
  static bool concerns(const admission_terms &, const client_key &);
  void sweep();                                  // every few minutes: what is idle is forgotten

 private:
  friend class admittance;
  const admission_settings settings_;
  occupancy room_;
  minute_buckets input_, output_;
};

enum class admitted : uint8_t { yes, parked, no };

class admittance : private occupancy_waiter {
 public:
  admittance(admission_control &control, loop &home) : occupancy_waiter(home), control_(control) {}

  // Once. `parked`: on_admitted or on_refused follows, unless it settles before.
  admitted ask(const admission_ask &, const admission_terms &, refusal &why);

  // The answer's text so far, all of it. What was not declared grows with it.
  void saw_output(uint64_t text_bytes);
  // The engine's own counts as soon as they are known, prompt first; 0 = not told. They replace what was estimated.
  void saw_usage(uint64_t prompt_tokens, uint64_t output_tokens);
  void reached_agent() { reached_ = true; }      // from here on the input is charged for good
  void hand_over();                              // a provider serves it: it holds no room here and its output is not charged
  // The end, whatever it was: everything held comes back, output is charged. Only the first call counts.
  void settle(uint64_t output_tokens);

  uint64_t held() const { return hold_.tokens(); }

 protected:
  ~admittance() override { settle(0); }
  virtual void on_admitted() = 0;
  virtual void on_refused(const refusal &) = 0;

 private:
  void on_room(occupancy_hold) override;
  void on_no_room() override;
  bool key_allows(refusal &why);
  std::string_view counted_as() const { return terms_.counted_as.empty() ? ask_.model : std::string_view(terms_.counted_as); }
  refusal no_room() const;

  admission_control &control_;
  admission_ask ask_;
  admission_terms terms_;
  occupancy_hold hold_;
  std::string bucket_;                           // key id and model; empty = the key has no limits here
  uint64_t prompt_ = 0, output_ = 0;             // counted in hold_
  bool input_charged_ = false, reached_ = false, handed_over_ = false, settled_ = false;
};

}  // namespace hive::tenancy
