#include "agent/runtime.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "observe/log.hpp"

namespace hive::agent {

// The agent as one router sees it.
class runtime::connection final : private link::agent_link_handler {
 public:
  connection(runtime &owner, router_target target)
      : owner_(owner), address_(target.options.router),
        link_(owner.data_, target.transport, owner.identity_, *this, target.options) {}

  link::agent_router_link &link() { return link_; }
  // What changed while the link was not welcome to hear it is told later.
  void tell_models() {
    if (told_ == owner_.metadata_ || !link_.welcomed()) return;
    told_ = owner_.metadata_;
    link_.models(told_);
  }
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
    return owner_.proxy_->open(request, stream, in_flight_, link_.slot_release_at_head(), [this] { link_.slot_freed(); });
  }
  std::string metadata() override { return told_ = owner_.metadata_; }
  void on_welcomed() override {
    observe::log("agent").info("registered with router {}", address_);
    tell_models();
    if (owner_.drain_deadline_ns_ != 0) {  // this router did not hear it when the drain began
      const uint64_t now = now_ns();
      link_.draining(owner_.drain_deadline_ns_ > now ? (owner_.drain_deadline_ns_ - now) / ns_per_ms : 0);
    }
    link_.heartbeat(owner_.engine_ready_, owner_.engine_reason_);
  }
  void on_lost(std::string_view reason) override { observe::log("agent").warn("link to router {} lost: {}", address_, reason); }
  void on_kicked(std::string_view code, std::string_view message, bool final) override {
    observe::log("agent").error("router {} refused this agent ({}): {}{}", address_, code, message,
                                final ? "; not trying again" : "");
  }
  void on_drain_requested(uint64_t deadline_ms) override {
    observe::log("agent").info("router {} asks to drain within {} ms", address_, deadline_ms);
    link_.draining(deadline_ms);  // the link refuses new requests of this router; others go on
  }
  link::pong_info load() override {
    link::pong_info info;
    info.in_flight_total = owner_.slots_.in_flight.load(std::memory_order_relaxed);
    info.in_flight_yours = in_flight_.load(std::memory_order_relaxed);
    info.capacity = owner_.slots_.capacity;
    return info;
  }

  runtime &owner_;
  const std::string address_;
  std::string told_;  // the metadata this router knows
  std::atomic<uint32_t> in_flight_{0};
  link::agent_router_link link_;
};

runtime::runtime(loop &data, loop &control_loop, const engine_codec &codec, http::origin engine, const agent_options &options,
                 link::identity identity)
    : data_(data),
      control_loop_(control_loop),
      options_(options),
      identity_(std::move(identity)),
      slots_(options.capacity),
      heartbeat_timer_([this] { beat(); }),
      drain_timer_([this] { wait_for_streams(); }) {
  proxy_options p;
  p.http_timeout_ns = options.http_timeout_ns;
  proxy_ = std::make_unique<proxy>(data, codec, engine, slots_, p);
  control_events &heard_here = *this;
  control_ = std::make_unique<control>(control_loop, codec, engine, options_, slots_, heard_here);
}

runtime::~runtime() = default;

size_t runtime::add_router(router_target target) {
  target.options.stream_write_timeout_ns = or_never(2 * options_.stream_write_timeout_ns);
  target.options.goodbye_ns = options_.goodbye_ns;
  connections_.push_back(std::make_unique<connection>(*this, std::move(target)));
  return connections_.size() - 1;
}

void runtime::request_pump(size_t router) {
  if (router < connections_.size()) connections_[router]->link().request_pump();
}

void runtime::start() {
  control_loop_.post([this] { control_->start(); });
}

std::string runtime::metadata_json(const agent_options &o, const std::vector<std::string> &models) {
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

// [control loop]
void runtime::on_engine(bool ready, const std::string &reason, const std::vector<std::string> &models) {
  data_.post([this, ready, reason, models] {
    proxy_->set_models(std::set<std::string>(models.begin(), models.end()));
    metadata_ = metadata_json(options_, models);
    engine_ready_ = ready;
    engine_reason_ = reason;
    if (!dialling_) {
      if (!ready) return;
      dialling_ = true;
      for (auto &c : connections_) c->link().start();
      return beat();
    }
    for (auto &c : connections_) {
      c->tell_models();
      c->link().heartbeat(engine_ready_, engine_reason_);  // an edge is told at once, not with the next beat
    }
  });
}

// [control loop]
void runtime::on_signals(std::vector<sampled_signal> signals, std::string structured_json) {
  data_.post([this, signals = std::move(signals), structured = std::move(structured_json)] {
    for (auto &c : connections_) c->send_signals(signals, structured);
  });
}

void runtime::beat() {
  uint64_t period = 5 * ns_per_s;
  for (auto &c : connections_) {
    if (const uint64_t asked = c->link().heartbeat_period_ns(); asked != 0) period = std::min(period, asked);
    c->link().heartbeat(engine_ready_, engine_reason_);
  }
  data_.arm_in(heartbeat_timer_, period);
}

void runtime::drain(uint64_t limit_ns, std::function<void()> done) {
  data_.post([this, limit_ns, done = std::move(done)]() mutable {
    proxy_->drain();
    for (auto &c : connections_)
      if (c->link().welcomed()) c->link().draining(limit_ns / ns_per_ms);
    drain_deadline_ns_ = now_ns() + limit_ns;
    drained_ = std::move(done);
    wait_for_streams();
  });
}

void runtime::wait_for_streams() {
  if (in_flight() == 0 || now_ns() >= drain_deadline_ns_) return say_goodbye();
  data_.arm_in(drain_timer_, 20 * ns_per_ms);
}

void runtime::say_goodbye() {
  control_loop_.post([this] { control_->stop(); });
  if (connections_.empty()) return drained_();
  auto left = std::make_shared<size_t>(connections_.size());
  for (auto &c : connections_)
    c->link().goodbye([this, left] {
      if (--*left == 0) drained_();
    });
}

}  // namespace hive::agent
