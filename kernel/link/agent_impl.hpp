// The agent's end from inside: the bundle of links to one router, its connections and streams. Belongs to the agent's loop.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "link/agent_link.hpp"
#include "link/channel.hpp"
#include "link/messages.hpp"

namespace hive::link {

struct agent_channel;

// A request as the agent keeps it: from OPEN until END, RESET or REFUSE has left.
class incoming_stream final : public agent_stream, public sender, private loop_timer {
 public:
  incoming_stream(agent_router_link::impl &bundle, agent_channel &link, uint64_t id, uint32_t answer_window);

  void accept() override;
  void refuse(cause why, std::string_view message, uint64_t retry_after_ms) override;
  void head(const http::response_head &h, bool streaming) override;
  bool data(std::string_view bytes) override;
  void end(const usage &u) override;
  void reset(cause why, std::string_view message, bool reached_engine, uint64_t retry_after_ms) override;
  void body_consumed(size_t bytes) override;

  void take_turn() override;
  bool wants_turn() const override;

  void begin(const record &open);
  void on_record(const record &r);
  void cancelled(cause why, bool tell_router);   // CANCEL, or the link is gone
  void listener_threw(const char *what);         // or whoever was called for it
  void tell_cancelled(agent_stream_events *who, cause why);
  const receive_window &receive_credit() const { return receive_; }

 private:
  void on_timer() override;
  void push();
  void send_data(std::string_view part);
  void tell_writable();
  void on_body(const record &r);
  bool pending() const { return pending_at_ < pending_.size(); }
  void watch_stall();
  void settle();                                 // the handler is done with it
  void leave_table();
  void send_last(kind what, cause why, uint16_t flags, std::string_view message, uint64_t retry_after_ms);

  agent_router_link::impl &bundle_;
  agent_channel &link_;
  const uint64_t id_;
  std::unique_ptr<agent_stream_events> listener_;
  receive_window receive_;
  size_t unconsumed_ = 0;
  uint32_t seq_out_ = 0;
  uint32_t seq_in_ = 0;
  std::string pending_head_;                     // HEAD that waits for its turn
  record_head pending_head_record_{};
  std::string pending_;                          // bytes the handler read before it was told to stop
  size_t pending_at_ = 0;
  usage usage_;
  bool headed_ = false;
  bool first_data_ = true;
  bool body_complete_ = false;
  bool end_pending_ = false;
  bool settled_ = false;                         // end, reset, refuse or cancelled: no event follows
  bool over_ = false;                            // out of the table
  bool want_writable_ = false;
};

// One connection to one router worker.
struct agent_channel final : channel {
  enum class phase { greeting, proving, welcomed, leaving, gone };

  agent_channel(agent_router_link::impl &b, hive_peer peer, uint32_t link_index, std::string_view from);
  void on_flushed() override {}
  void on_send_failed(hive_status code) override;
  void on_silent() override;

  agent_router_link::impl &bundle;
  const uint32_t index;           // in the bundle; index_of tells the one that the router knows
  const std::string address;
  phase at = phase::greeting;
  bool lost = false;
  bool refused_busy = false;      // owes the router a PONG when a slot is free
  key32 nonce{};
  key32 router_nonce{};
  digest32 metadata_hash{};
  digest32 proof_key{};           // of the last AUTH
  size_t challenges = 0;          // on the live link since the last WELCOME
  uint16_t epoch = 0;
  uint32_t body_window = 0;
  std::string failing;
  callback_timer limit;
  std::unordered_map<uint64_t, std::unique_ptr<incoming_stream>> streams;
};

// The effort to have one link up: resolve, race the addresses, wait, again.
struct dial_slot {
  dial_slot(agent_router_link::impl &b, uint32_t i, std::string where);

  agent_router_link::impl &bundle;
  const uint32_t index;
  std::string address;
  uint32_t failures = 0;
  bool resolving = false;
  std::vector<std::string> candidates;
  size_t next = 0;
  std::vector<hive_peer> attempts;
  int32_t worst = 0;              // reason of the attempts that failed; a failed handshake wins
  std::string why;
  std::unique_ptr<agent_channel> link;
  callback_timer retry;
  callback_timer race;
  callback_timer lacking;
};

class agent_router_link::impl final : public transport_owner, private turn_task {
 public:
  impl(loop &l, transport_ref t, const identity &id, agent_link_handler &h, const agent_link_options &o);
  ~impl();

  // agent_bundle.cpp: dialling and the bundle
  void start();
  void dial(dial_slot &s);
  void connect_next(dial_slot &s);
  void goodbye(std::function<void()> done);
  void goodbye_answered();
  void on_peer(hive_peer peer, const key32 &key, std::string_view address) override;
  void on_peer_lost(hive_peer peer, int32_t reason, std::string_view text) override;
  // Ends a link: its streams are cancelled first, then it is dialled again after `delay_ns` (never_ns: with back-off).
  void drop(agent_channel &c, std::string_view reason, uint64_t delay_ns = never_ns);
  void drop_later(agent_channel &c, std::string reason);
  void set_secrets(std::vector<std::string> secrets);
  void try_next_key();
  void halt();                                   // no dialling any more
  void all_up_or_not();

  // agent_session.cpp: records of the link itself
  void on_frame(hive_peer peer, std::string_view frame) override;
  void say_hello(agent_channel &c);
  void send_pong(agent_channel &c, uint32_t seq);
  agent_channel *link_zero();                    // null while it is not welcomed, and in a part that has another one
  uint32_t index_of(const agent_channel &c) const { return c.index + (options.part ? options.part->link_index : 0); }

  // agent_stream.cpp
  void on_stream_record(agent_channel &c, const record &r);
  void bury(agent_channel &c, uint64_t stream);
  pong_info load_now();

  loop &loop_;
  agent_link_options options;                    // its secrets are wiped once their keys are derived
  agent_link_handler &handler;
  transport_pump pump;
  bool draining = false;
  bool all_welcomed = false;
  bool halted = false;
  bool slot_release_at_head = false;
  uint64_t heartbeat_ns = 5 * ns_per_s;
  std::vector<std::unique_ptr<dial_slot>> slots;

 private:
  void on_turn_end() override;
  status start_transport();
  void derive(std::vector<std::string> secrets);
  std::string refused_handshake(const dial_slot &s) const;
  void resolved(uint32_t index, std::vector<std::string> addresses, std::string trouble);
  void dial_failed(dial_slot &s);
  void again(dial_slot &s, uint64_t delay_ns);
  dial_slot *slot_of(hive_peer peer);
  void on_link_record(agent_channel &c, const record &r);
  void on_challenge(agent_channel &c, const record &r);
  void on_welcome(agent_channel &c, const record &r);
  void on_kick(agent_channel &c, const record &r);
  bool next_secret(const agent_channel &c);      // whether there is one to be tried at once
  proof_input proof_of(const agent_channel &c) const;
  uint64_t backoff_ns(uint32_t failures) const;

  const identity identity_;
  const uint64_t boot_id_;
  uint64_t router_boot_ = 0;
  key32 router_key_{};                           // what the transport was started with
  std::vector<key32> router_keys_;               // pinned, or one a secret
  std::vector<digest32> proof_keys_;             // one a secret
  size_t key_at_ = 0, secret_at_ = 0;            // which are tried next
  size_t keys_tried_ = 0, secrets_tried_ = 0;    // in a row without a welcome
  frame_pool frames_;
  outbox_counters sent_;
  boost::asio::ip::tcp::resolver resolver_;
  std::unordered_map<hive_peer, dial_slot *> by_peer_;
  std::vector<hive_peer> failing_;
  std::vector<std::unique_ptr<agent_channel>> buried_links_;
  std::vector<std::unique_ptr<incoming_stream>> buried_streams_, burying_;  // the second while they go
  std::function<void()> goodbye_done_;
  callback_timer goodbye_limit_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  friend struct agent_channel;
};

}  // namespace hive::link
