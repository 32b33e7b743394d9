// One client request on its way to an engine and back: body -> forward slot -> session -> stream -> answer. Owned by its
// exchange; lives on its worker's loop.
//
// Commit point: until the first content has been passed on, a failed attempt is repeated elsewhere and the client knows
// nothing of it; from then on a failure ends the stream with one error event and no clean end. What was taken (forward
// slot, lease, tries) is returned by destructors, whichever way the request ends.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_budget.hpp"
#include "base/loop.hpp"
#include "gateway/error.hpp"
#include "gateway/estimate.hpp"
#include "gateway/forward_line.hpp"
#include "gateway/request_material.hpp"
#include "gateway/request_scan.hpp"
#include "gateway/routes.hpp"
#include "gateway/telemetry.hpp"
#include "gateway/usage_ask.hpp"
#include "gateway/worker_context.hpp"
#include "http/server.hpp"
#include "http/sse_scanner.hpp"
#include "link/router_hub.hpp"
#include "routing/router.hpp"
#include "tenancy/admission_control.hpp"
#include "tenancy/keyring.hpp"
#include "tenancy/quota.hpp"

namespace hive::gateway {

class relay final : public http::responder,
                    private routing::session_events,
                    private link::stream_events,
                    private forward_waiter,
                    private loop_timer {
 public:
  relay(worker_context &, http::exchange &, const route &, std::string request_id, tenancy::caller);
  ~relay() override;
  void start();

  // For whom walks the list of live relays; an ended one is passed over.
  static relay &of(detail::hook &h) { return *static_cast<place &>(h).owner; }
  bool over() const { return recorded_; }
  size_t unsent() const;                   // answer bytes that the client has not taken
  void end_slow();                         // gives up a client that takes too little: client_slow, at the end of the turn
  void shut_down();                        // the drain's time is up: 503, or an error event and a cut

 private:
  struct place : detail::hook {
    relay *owner = nullptr;
  };
  enum class mode { none, stream, buffer, error };

  // http::responder
  void on_body(http::body_ptr) override;
  void on_body_failed(http::body_error) override;
  void on_written(size_t) override;
  void on_gone(http::gone) override;
  std::string on_thrown(bool begun) override;             // of a call of the exchange's, or by exchange::fail
  // forward_waiter
  void on_forward_slot() override;
  void on_forward_refused() override;
  // routing::session_events
  void on_lease(fleet::lease, std::string_view step) override;
  void on_parked() override;
  void on_exhausted(const routing::exhaustion &) override;
  // link::stream_events
  void on_head(const link::stream_head &) override;
  void on_data(std::string_view) override;
  void on_end(const link::usage &) override;
  void on_failed(const link::stream_failure &) override;
  void on_thrown() override { exchange_.fail(); }
  bool client_is_timed() const override { return exchange_.unwritten() > 0; }  // by the HTTP server
  // loop_timer: the deadline
  void on_timer() override;

  bool short_of_memory() const { return context_.memory != nullptr && context_.memory->budget().over(); }
  void hold(std::string_view bytes);
  void let_go();
  void give_credit();
  // relay_admission.cpp
  bool let_in();                           // false: refused, or parked and on its way later
  void enter_line();
  void reject(const tenancy::refusal &);
  void tell_progress();
  void settle_admission();
  void learn_tokens();
  // relay_quota.cpp; false: refused, or it waits for its turn
  bool take_request();
  bool take_turn();
  uint64_t replicas() const;
  bool take_tokens();
  bool answer_in_budget();
  void refuse_model(const api_error &);
  void settle_quota();
  void agent_has_it();
  void look_for_agent();
  void dispatch();
  bool is_form_body() const;
  void forget_attempt();                   // what the last one left
  std::optional<scan_error> scan_body();
  std::optional<scan_error> resolve_alias();
  void expose_routing(std::vector<http::field> &);
  void keep_alive();
  void collect_engine_headers(std::span<const http::field>);
  void stream_data(std::string_view);
  void buffer_data(std::string_view);
  void commit();
  void finish_stream();
  void finish_buffered();
  void judge_engine_error();
  void ask_provider(const routing::exhaustion &);
  void provider_failed(api_error);
  // An error event came before any content.
  api_error stream_error(const http::stream_facts &) const;
  std::string_view refusal_code() const;
  std::string_view engine_field(std::string_view name) const;  // as the engine sent it, empty if not
  std::string_view flaw_of_answer() const;
  void on_cut(std::string_view words);
  // The attempt is over and nothing of it was passed on.
  void retry(routing::attempt_result, api_error, std::string_view cause);
  void take_usage(link::usage told);
  std::optional<uint64_t> most_output(uint64_t counted) const;
  std::optional<uint64_t> output_footprint() const { return scan_.output_footprint(one_prompt(route_)); }
  void end_attempt(routing::attempt_result, bool had_its_time = true);
  void break_off(ended, const api_error &);   // after commit
  void refuse(ended, const api_error &);      // before commit; ends the exchange, nothing may follow
  void pass_on(int status, std::string body); // the engine's own refusal, unchanged; likewise
  void settle_usage();
  void record(ended, int status, std::string_view code);
  std::vector<http::field> answer_fields(bool streaming);
  void set_stage(std::atomic<int64_t> *);
  fleet::lease take_lease();
  void drop_stream(link::cause why);

  worker_context &context_;
  place place_;
  http::exchange &exchange_;
  const route &route_;
  const std::string request_id_;
  const tenancy::caller caller_;           // what it may do, and whose it is
  const std::string method_;
  const std::string client_;
  const uint64_t started_ns_;
  const uint64_t started_unix_ms_;
  const uint64_t request_deadline_ns_;     // over all tries
  uint64_t deadline_ns_;                   // that one, or of a stream that has begun its own
  std::atomic<int64_t> *stage_ = nullptr;

  http::body_ptr body_;
  request_scan scan_;
  std::optional<request_material> material_;  // the session's
  token_estimate estimate_;
  struct way_in final : tenancy::admittance {
    explicit way_in(relay &r) : admittance(*r.context_.admission, r.context_.home), owner(r) {}
    void on_admitted() override {
      owner.governed_.reset();
      owner.enter_line();
    }
    void on_refused(const tenancy::refusal &why) override { owner.reject(why); }
    relay &owner;
  };
  std::optional<way_in> way_in_;           // of a request that admission concerns
  struct own_turn final : tenancy::parallel_turn {
    explicit own_turn(relay &r) : parallel_turn(r.context_.home), owner(r) {}
    void on_turn() override {
      if (owner.let_in()) owner.enter_line();
    }
    relay &owner;
  };
  std::optional<tenancy::quota_use> quota_;  // of a key with limits
  std::optional<own_turn> turn_;           // of a key with a limit of requests at once
  std::string_view token_limited_;         // when the day's budget ended or refused it: "input" or "output"
  tenancy::refused_by refused_by_ = tenancy::refused_by::none;
  std::optional<routing::governed> governed_;  // looked up for admission; only while the request has not had to wait since
  std::unique_ptr<routing::session> session_;
  fleet::lease lease_;                     // until the stream takes it
  std::string agent_;
  std::string step_;
  std::string alias_;                      // the name that the client used for scan_.model, if it was another
  std::string told_step_, told_attempts_, told_queue_;  // what the fields of expose_routing point at
  std::optional<routing::provider_choice> provider_;  // who answers, once no agent could
  bool model_claimed_ = false;             // by name in the policy
  bool attempt_open_ = false;
  bool sampled_ = false;                   // this attempt has given its latency sample
  bool exclude_ = true;                    // a refusing agent is not asked again for this request, unless it was only busy
  uint64_t dispatched_ns_ = 0;
  std::unique_ptr<link::router_stream> stream_;

  mode mode_ = mode::none;
  bool committed_ = false;
  int engine_status_ = 0;
  std::string engine_class_;               // ":class" of HEAD, the adapter's verdict
  std::string engine_message_;
  bool usage_in_characters_ = false;       // ":usage" of HEAD
  bool until_close_ = false;               // ":body" of HEAD: nothing but a closed connection ended the engine's answer
  bool error_cut_ = false;                 // likewise: the engine's error body was too long and is not passed on
  bool encoded_ = false;                   // Content-Encoding: bytes that nothing can be read in
  uint64_t encoded_bytes_ = 0;             // of it so far
  std::vector<std::pair<std::string, std::string>> engine_fields_;
  std::string held_;                       // answer bytes not passed on yet
  byte_claim held_claim_;
  size_t buffered_credit_ = 0;             // of the bytes being written: credit that was returned when they were held
  size_t owed_ = 0;                        // credit of bytes written, kept back while memory is short
  std::optional<http::sse_scanner> scanner_;
  bool at_event_end_ = true;               // the stream's bytes so far end with a whole event
  bool usage_asked_ = false;               // by us; the filter keeps the engine's answer from the client
  std::optional<usage_filter> filter_;
  std::string tail_;                       // of a buffered answer that was committed: where its usage may stand
  link::usage usage_;
  bool estimated_ = false;
  std::optional<api_error> last_error_;
  uint64_t first_byte_ns_ = 0;
  bool recorded_ = false;

  struct keepalive_timer final : loop_timer {
    explicit keepalive_timer(relay &r) : owner(r) {}
    void on_timer() override { owner.keep_alive(); }
    relay &owner;
  };
  uint64_t last_sent_ns_ = 0;              // kept only while the timer is used
  keepalive_timer keepalive_{*this};
};

}  // namespace hive::gateway
