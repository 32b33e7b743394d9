#include "agent/data_half.hpp"

#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "observe/log.hpp"

namespace hive::agent {

// The agent as one router sees it from this loop.
class data_half::connection final : private link::agent_link_handler {
 public:
  connection(data_half &owner, size_t index, router_target target)
      : owner_(owner), index_(index), address_(target.options.router),
        in_parts_(target.options.part.has_value()), speaks_(!in_parts_ || target.options.part->link_index == 0),
        link_(owner.loop_, target.transport, owner.identity_, *this, target.options) {}

  link::agent_router_link &link() { return link_; }
  // What changed while the link was not welcome to hear it is told later.
  void tell_models() {
    if (told_ == owner_.metadata_ || !link_.welcomed()) return;
    told_ = owner_.metadata_;
    link_.models(told_);
  }
  void tell_engine() { link_.heartbeat(owner_.engine_ready_, owner_.engine_reason_); }
  void send_signals(const std::vector<sampled_signal> &signals, std::string_view structured) {
    if (!link_.welcomed()) return;
    const uint64_t now = now_ns();
    std::vector<link::signal_value> values;
    values.reserve(signals.size());
    for (const sampled_signal &s : signals) values.push_back({s.name, s.value, (now - s.sampled_ns) / ns_per_ms});
    link_.signals(values, structured);
  }

 private:
  std::unique_ptr<link::agent_stream_events> on_open(const link::incoming_request &request, link::agent_stream &stream) override {
    return owner_.proxy_.open(request, stream, in_flight_, link_.slot_release_at_head(), [this] { owner_.slot_freed(); });
  }
  std::string metadata() override { return told_ = owner_.metadata_; }
  void on_welcomed() override {
    if (speaks_) observe::log("agent").info("registered with router {}", address_);
    tell_models();
    if (owner_.drain_deadline_ns_ != 0) {  // this router did not hear it when the drain began
      const uint64_t now = now_ns();
      link_.draining(owner_.drain_deadline_ns_ > now ? (owner_.drain_deadline_ns_ - now) / ns_per_ms : 0);
    }
    tell_engine();
    owner_.keep_pace();
    owner_.events_.on_registered(index_);
  }
  void on_lost(std::string_view reason) override { observe::log("agent").warn("link to router {} lost: {}", address_, reason); }
  void on_kicked(std::string_view code, std::string_view message, bool final) override {
    observe::log("agent").error("router {} refused this agent ({}): {}{}", address_, code, message,
                                final ? "; not trying again" : "");
  }
  void on_drain_requested(uint64_t deadline_ms) override {
    observe::log("agent").info("router {} asks to drain within {} ms", address_, deadline_ms);
    owner_.events_.on_drain_asked(index_, deadline_ms);
  }
  link::pong_info load() override {
    link::pong_info info;
    info.in_flight_total = owner_.slots_.in_flight.load(std::memory_order_relaxed);
    // An agent in parts has one router: whatever is taken in any part is that router's.
    info.in_flight_yours = in_parts_ ? info.in_flight_total : in_flight_.load(std::memory_order_relaxed);
    info.capacity = owner_.slots_.capacity;
    return info;
  }

  data_half &owner_;
  const size_t index_;
  const std::string address_;
  const bool in_parts_;
  const bool speaks_;
  std::string told_;  // the metadata this router knows
  std::atomic<uint32_t> in_flight_{0};
  link::agent_router_link link_;
};

namespace {

proxy_options proxy_options_of(const agent_options &o) {
  proxy_options p;
  p.http_timeout_ns = o.http_timeout_ns;
  p.max_answer_bytes = o.max_answer_bytes;
  p.extra_routes = o.extra_routes;
  return p;
}

}  // namespace

data_half::data_half(loop &home, const engine_codec &codec, const http::origin &engine, const agent_options &options,
                     const link::identity &identity, slot_count &slots, half_events &events)
    : loop_(home), options_(options), identity_(identity), slots_(slots), events_(events),
      proxy_(home, codec, engine, slots, proxy_options_of(options)), heartbeat_timer_([this] { beat(); }) {}

// Streams that go with their links free slots, and slot_freed goes through the links: it finds none.
data_half::~data_half() { const auto going = std::exchange(connections_, {}); }

size_t data_half::add_router(router_target target) {
  target.options.stream_write_timeout_ns = or_never(2 * options_.stream_write_timeout_ns);
  target.options.goodbye_ns = options_.goodbye_ns;
  connections_.push_back(std::make_unique<connection>(*this, connections_.size(), std::move(target)));
  return connections_.size() - 1;
}

void data_half::request_pump(size_t router) {
  if (router < connections_.size()) connections_[router]->link().request_pump();
}

void data_half::set_secrets(const std::vector<std::string> &secrets) {
  for (auto &c : connections_) c->link().set_secrets(secrets);
}

void data_half::dial() {
  if (std::exchange(dialled_, true)) return;
  for (auto &c : connections_) c->link().start();
  beat();
}

void data_half::set_engine(bool ready, const std::string &reason, const std::vector<std::string> &models) {
  proxy_.set_models(std::set<std::string>(models.begin(), models.end()));
  metadata_ = metadata_json(options_, models);
  engine_ready_ = ready;
  engine_reason_ = reason;
  if (!dialled_) return;
  for (auto &c : connections_) {
    c->tell_models();
    c->tell_engine();
  }
}

void data_half::send_signals(const std::vector<sampled_signal> &signals, std::string_view structured_json) {
  for (auto &c : connections_) c->send_signals(signals, structured_json);
}

void data_half::beat() {
  for (auto &c : connections_) c->tell_engine();
  loop_.arm_in(heartbeat_timer_, period_ns());
}

uint64_t data_half::period_ns() const {
  uint64_t period = 5 * ns_per_s;
  for (const auto &c : connections_)
    if (const uint64_t asked = c->link().heartbeat_period_ns(); asked != 0) period = std::min(period, asked);
  return period;
}

// A router that is there now may want a beat earlier than the next one is due; never later.
void data_half::keep_pace() {
  if (heartbeat_timer_.armed() && heartbeat_timer_.due_ns() > now_ns() + period_ns()) loop_.arm_in(heartbeat_timer_, period_ns());
}

void data_half::drain_for(size_t router, uint64_t deadline_ms) {
  if (router < connections_.size()) connections_[router]->link().draining(deadline_ms);
}

void data_half::drain(uint64_t deadline_ms) {
  proxy_.drain();
  drain_deadline_ns_ = now_ns() + deadline_ms * ns_per_ms;
  for (auto &c : connections_)
    if (c->link().welcomed()) c->link().draining(deadline_ms);
}

// Routers share the slots: whoever was refused may have one now, whoever's request has ended.
void data_half::slot_freed() {
  for (auto &c : connections_) c->link().slot_freed();
}

void data_half::goodbye(std::function<void()> done) {
  heartbeat_timer_.disarm();
  if (connections_.empty()) return done();
  auto left = std::make_shared<size_t>(connections_.size());
  for (auto &c : connections_)
    c->link().goodbye([left, done] {
      if (--*left == 0) done();
    });
}

std::string metadata_json(const agent_options &o, const std::vector<std::string> &models) {
  namespace json = boost::json;
  json::object out;
  out["models"] = json::array(models.begin(), models.end());
  out["model"] = models.empty() ? std::string() : models.front();
  out["capacity"] = o.capacity;
  out["capability"] = o.capability;
  out["engine"] = o.engine;
  out["version"] = o.version;
  out["region"] = o.region;
  out["organization"] = o.organization;
  out["machine"] = o.machine;
  out["tags"] = json::array(o.tags.begin(), o.tags.end());
  out["gpu_model"] = o.gpu_model;
  out["deployment_id"] = o.deployment_id;
  out["replica_id"] = o.replica_id;
  out["hide_llm"] = o.hide_llm;
  out["llm_pretty_name"] = o.llm_pretty_name;
  out["llm_info"] = o.llm_info;
  return json::serialize(out);
}

}  // namespace hive::agent
