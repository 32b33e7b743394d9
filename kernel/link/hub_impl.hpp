// The router's end from inside: links and streams as router_hub keeps them. Belongs to the worker's loop.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "link/channel.hpp"
#include "link/messages.hpp"
#include "link/router_hub.hpp"
#include "link/strangers.hpp"

namespace hive::link {

struct hub_link;
class hub_stream_handle;

// A stream as the router keeps it: from open() until END, RESET or REFUSE of the agent, or the loss of its link. The
// caller's handle may be gone long before; then the stream is closing and holds only the agent's slot.
class hub_stream final : public sender, private loop_timer {
 public:
  hub_stream(router_hub::impl &hub, hub_link &link, uint64_t id, const open_request &request, std::string meta,
             stream_events &events, std::unique_ptr<held> keep);
  ~hub_stream() override;

  void begin();                                   // sends OPEN, or stands in line for it
  void open_handed_over(uint64_t now);            // the RTT clock starts
  void on_record(const record &r);
  void link_is_lost(cause why, std::string_view reason);
  void forget();                                  // the hub is going: no event, no record
  void consumed(size_t bytes);
  void abandon(cause why);                        // cancel by the owner: no event follows

  void take_turn() override;
  bool wants_turn() const override;
  const receive_window &receive_credit() const { return receive_; }
  hub_stream_handle *handle = nullptr;

 private:
  enum class phase { unsent, opening, running, closing, over };
  void on_timer() override;
  void send_open();
  void send_body();
  void push_body();
  void on_head(const record &r);
  void on_data(const record &r);
  void on_refuse(const record &r);
  void on_reset(const record &r);
  void finish(const record &r);
  // The router's own verdict: tells the agent, then the owner; the slot stays held until the agent answers.
  void give_up(kind tell, cause why, std::string message, bool reached_engine);
  void start_closing(kind tell, cause why);
  void give_back(uint32_t bytes);
  void speak_for_the_client();
  // Takes the stream out of the tables and lets go of the slot; the object lives to the end of the turn.
  void leave_tables();
  void let_go();                                  // of the slot
  stream_failure failure(cause why, std::string message, bool reached_engine) const;
  void report(stream_failure f);
  // Calls the owner, which may be null. No exception goes on from here: a transport would have to pass it on.
  template <class F>
  void tell(stream_events *owner, F &&f);
  void owner_threw(stream_events &owner, const char *what);

  router_hub::impl &hub_;
  hub_link &link_;
  const uint64_t id_;
  phase phase_ = phase::unsent;
  bool streaming_;
  bool head_seen_ = false;
  uint32_t seq_out_ = 0;
  uint32_t seq_in_ = 0;
  std::string open_meta_;                         // until OPEN is sent
  http::body_ptr body_;
  size_t body_sent_ = 0;
  receive_window receive_;
  size_t unconsumed_ = 0;
  uint64_t opened_ns_ = 0;                        // OPEN handed to the transport; 0 = not yet
  stream_events *events_;
  std::unique_ptr<held> held_;
};

class hub_stream_handle final : public router_stream {
 public:
  explicit hub_stream_handle(hub_stream &s) : stream(&s) { s.handle = this; }
  ~hub_stream_handle() override { cancel(cause::superseded); }
  void consumed(size_t bytes) override {
    if (stream) stream->consumed(bytes);
  }
  void cancel(cause why) override {
    if (!stream) return;
    hub_stream *s = std::exchange(stream, nullptr);
    s->handle = nullptr;
    s->abandon(why);
  }
  hub_stream *stream;  // null once it is over
};

// One connection of an agent (or of a stranger that has not proven anything yet).
struct hub_link final : channel {
  enum class phase { stranger, challenged, deciding, welcomed, leaving, gone };

  hub_link(router_hub::impl &h, hive_peer peer, const key32 &curve_key, std::string_view from, std::string of_group);
  void on_flushed() override;
  void on_send_failed(hive_status code) override;
  void on_silent() override;

  router_hub::impl &hub;
  const key32 key;                 // as CURVE proved it; never taken from a record
  const std::string address;
  const std::string group;         // address_group of it
  phase at = phase::stranger;
  std::string peer_id;
  uint64_t boot_id = 0;
  uint32_t index = 0;
  key32 agent_nonce{};
  key32 router_nonce{};
  digest32 metadata_hash{};        // of the last AUTH that was proven
  digest32 proven_with{};          // the key of the secret of that proof
  size_t secret = 0;               // its place in the list at that time
  uint32_t refused_proofs = 0;     // of a renewal, in a row
  uint16_t epoch = 0;
  uint64_t counter = 0;
  uint32_t body_window = 0;
  uint32_t challenges_out = 0;     // not answered yet; only the answer to the last one has the nonce above
  bool known = false;              // the directory has heard of it
  bool counted_as_stranger = false;
  bool expired = false;
  bool lost = false;               // the transport has forgotten the peer
  std::string failing;             // why it ends at the end of this turn
  uint64_t last_stream_record_ns = 0;
  callback_timer limit;            // authentication, later the wait for the agent's close
  callback_timer renewal;
  callback_timer expiry;
  std::unordered_map<uint64_t, std::unique_ptr<hub_stream>> streams;
  std::vector<uint64_t> opens;     // in the frame that has not left yet
};

class router_hub::impl final : public transport_owner, private turn_task {
 public:
  impl(loop &l, transport_ref network, directory &d, const hub_options &o, transport_ref own = {});
  ~impl();

  // hub.cpp
  status start();
  std::unique_ptr<router_stream> open(std::string_view peer_id, const open_request &, stream_events &, std::unique_ptr<held> keep,
                                      stream_failure &why);
  void probe(std::string_view peer_id, std::function<void(bool)> reply);
  void kick_peer(std::string_view peer_id, const kick_message &m);
  void kick_link(hive_peer peer, const kick_message &m);
  void drain(std::string_view peer_id, uint64_t deadline_ms);
  void set_secrets(std::vector<std::string> secrets);
  void shut_down(uint32_t linger_ms);

  void on_peer(hive_peer peer, const key32 &key, std::string_view address) override;
  void on_frame(hive_peer peer, std::string_view frame) override;
  void on_peer_lost(hive_peer peer, int32_t reason, std::string_view text) override;

  // hub_session.cpp
  void on_link_record(hub_link &l, const record &r);
  void kick(hub_link &l, const kick_message &m);
  void on_limit(hub_link &l);
  // Ends a link now: its streams fail, the directory hears of it, its connection is closed.
  void drop(hub_link &l, std::string_view reason, cause why = cause::link_lost);
  void drop_later(hub_link &l, std::string reason);   // from places that must not destroy anything
  void protocol_fault(hub_link &l, std::string what);

  // hub_stream.cpp
  void on_stream_record(hub_link &l, const record &r);
  void bury(hub_link &l, uint64_t stream);

  const std::unordered_map<hive_peer, std::unique_ptr<hub_link>> &links() const { return links_; }
  const curve_pair &keys() const { return keys_; }
  transport_pump &pump_of(hive_peer peer) { return (peer & own_process_mark) != 0 && own_pump ? *own_pump : pump; }

  loop &loop_;
  directory &directory_;
  hub_options options;              // without the secrets, once it is started
  transport_pump pump;              // the network; idle without a table
  std::optional<transport_pump> own_pump;
  hub_counters counters;
  std::vector<std::string> endpoints;
  std::vector<http::field> field_scratch;
  uint64_t frame_ns = 0;            // when the frame being read came off the transport

 private:
  struct probe_wait {
    hive_peer peer;
    std::function<void(bool)> reply;
    callback_timer timer;
    probe_wait(hive_peer p, std::function<void(bool)> r) : peer(p), reply(std::move(r)), timer([this] { answer(false); }) {}
    void answer(bool alive) {
      timer.disarm();
      if (reply) std::exchange(reply, nullptr)(alive);
    }
  };

  void on_turn_end() override;      // drops what is failing, frees what is over
  void on_hello(hub_link &l, const record &r);
  void on_auth(hub_link &l, const record &r);
  void decide(hub_link &l, std::string metadata, bool renewal);
  void decided(hive_peer peer, bool renewal, const auth_decision &d);
  void welcome(hub_link &l, bool renewal);
  void challenge(hub_link &l);
  void on_pong(hub_link &l, const record &r);
  void on_signals(hub_link &l, const record &r);
  void on_goodbye(hub_link &l);
  void answer_probes(hive_peer peer, bool alive);
  void on_wrong_proof(hub_link &l, bool renewal);
  void ask_again(hub_link &l);      // for a proof on a live link
  bool admit_stranger(hive_peer peer, const std::string &group, std::string_view address);
  void no_stranger_any_more(hub_link &l);
  const std::vector<digest32> &keys_for(const hub_link &l) const {
    return (l.peer() & own_process_mark) != 0 && !own_proof_keys_.empty() ? own_proof_keys_ : proof_keys_;
  }
  bool holds(const hub_link &l) const;   // the secret that it has proven
  proof_input proof_of(const hub_link &l) const;
  hub_link *find(std::string_view peer_id);

  curve_pair keys_;
  std::vector<digest32> proof_keys_;
  std::vector<digest32> own_proof_keys_;
  stranger_budget strangers_;
  frame_pool frames_;
  uint16_t next_epoch_;
  std::unordered_map<hive_peer, std::unique_ptr<hub_link>> links_;
  std::unordered_map<std::string, hub_link *, text_hash, std::equal_to<>> by_peer_id_;   // welcomed only
  std::vector<std::unique_ptr<probe_wait>> probes_;
  std::vector<hive_peer> failing_;
  std::vector<std::unique_ptr<hub_link>> buried_links_;
  std::vector<std::unique_ptr<hub_stream>> buried_streams_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

  friend class router_hub;
  friend struct hub_link;
};

}  // namespace hive::link
