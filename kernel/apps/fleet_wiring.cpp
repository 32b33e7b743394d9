#include "apps/fleet_wiring.hpp"

#include "observe/log.hpp"

#include <mutex>

#include "fleet/metadata.hpp"

namespace hive::apps {

void hub_control::probe(uint32_t worker, std::string peer_id, std::function<void(bool)> reply) {
  if (worker >= hubs_.size()) return reply(false);
  hubs_[worker].home->post([hub = hubs_[worker].hub, peer_id = std::move(peer_id), reply = std::move(reply)]() mutable {
    hub->probe(peer_id, std::move(reply));
  });
}

void hub_control::kick_link(link::link_id id, std::string code, std::string message, uint64_t retry_after_ms, bool final) {
  if (id.worker >= hubs_.size()) return;
  hubs_[id.worker].home->post([hub = hubs_[id.worker].hub, id, code = std::move(code), message = std::move(message), retry_after_ms, final] {
    hub->kick_link(id, code, message, retry_after_ms, final);
  });
}

void hub_control::set_denied(const std::vector<link::key32> &keys) {
  for (const hub_place &each : hubs_)
    each.home->post([hub = each.hub, keys] { hub->set_denied(keys); });
}

void hub_control::set_secrets(const std::vector<std::string> &secrets) {
  for (const hub_place &each : hubs_)
    each.home->post([hub = each.hub, secrets = secrets]() mutable { hub->set_secrets(std::move(secrets)); });  // which wipes what it gets
}

std::optional<fleet::roster_refusal> fleet_directory::judge(std::string_view peer_id, std::string_view metadata_json) const {
  if (roster_ == nullptr) return std::nullopt;
  std::vector<std::string> models;  // of metadata that is wrong the registry has more to say
  if (!metadata_json.empty() && roster_->lists_models())
    if (auto info = fleet::parse_metadata(peer_id, metadata_json)) models = std::move(info->models);
  return roster_->judge(peer_id, models);
}

void fleet_directory::put_out() {
  if (roster_ == nullptr) return;
  const auto now = registry_.snapshot();
  for (const auto &a : now->agents) {
    const auto no = roster_->judge(a->peer_id(), a->info()->models);
    if (!no) continue;
    observe::log("link").warn("agent {} at {} is put out: {}: {}", a->peer_id(), a->info()->address, no->code, no->message);
    registry_.disconnect(a->peer_id(), {no->code, no->message, fleet::refused_retry_ms, true});
  }
}

void fleet_directory::learn_pools() {
  for (const auto &pool : registry_.pools()) {
    if (known_.contains(pool->model())) continue;
    if (const status s = router_.add_pool(pool); !s) {
      observe::log("policy").error("model '{}' cannot be routed: {}", pool->model(), s.text());
      continue;
    }
    known_.emplace(pool->model(), 0);
  }
}

void fleet_directory::forget_pools(uint64_t now_ns, uint64_t after_ns) {
  for (auto each = known_.begin(); each != known_.end();) {
    auto &[model, empty_since] = *each;
    const auto pool = registry_.find_pool(model);
    bool empty = true;
    if (pool) {
      const std::lock_guard lock(pool->mutex());
      empty = pool->members() == 0;
    }
    if (!empty) empty_since = 0;
    else if (empty_since == 0) empty_since = now_ns;
    // An agent may have come since the look: then the pool stays.
    if (!empty || now_ns - empty_since < after_ns || (pool && !registry_.drop_pool(model))) {
      ++each;
      continue;
    }
    observe::log("router").info("model '{}' is forgotten: no agent has served it for {} s", model, after_ns / ns_per_s);
    router_.remove_pool(model);
    metrics_.forget_model(model);
    each = known_.erase(each);
  }
}

void fleet_directory::authenticate(link::auth_request request, std::function<void(link::auth_decision)> reply) {
  if (!request.link.in_own_process() && reserved_.contains(request.peer_id)) {
    link::auth_decision no;
    no.kick_code = "duplicate";
    no.message = "this identity belongs to an agent inside the router";
    no.final = true;
    return reply(std::move(no));
  }
  control_.post([this, request = std::move(request), reply = std::move(reply)]() mutable {
    if (const auto no = judge(request.peer_id, request.metadata)) {
      observe::log("link").warn("agent {} at {} is refused: {}: {}", request.peer_id, request.address, no->code, no->message);
      link::auth_decision refused;
      refused.kick_code = no->code;
      refused.message = no->message;
      refused.retry_after_ms = fleet::refused_retry_ms;
      return reply(std::move(refused));
    }
    registry_.authenticate(std::move(request), [this, reply = std::move(reply)](link::auth_decision decision) {
      control_.post([this, reply, decision = std::move(decision)] {
        learn_pools();
        reply(decision);
      });
    });
  });
}

void fleet_directory::models(std::string_view peer_id, std::string_view metadata_json) {
  control_.post([this, peer = std::string(peer_id), metadata = std::string(metadata_json)] {
    if (const auto no = judge(peer, metadata)) {
      observe::log("link").warn("agent {} is put out: {}: {}", peer, no->code, no->message);
      registry_.disconnect(peer, {no->code, no->message, fleet::refused_retry_ms, true});
      return;
    }
    registry_.models(peer, metadata);
    learn_pools();
  });
}

void outcomes::on_attempt(const routing::attempt_outcome &o) {
  metrics_.on_attempt(o);
  fleet::outcome_record record;
  record.generation = o.generation;
  record.success = o.effect == routing::standing_effect::success;
  record.input_tokens = o.prompt_tokens;
  record.output_tokens = o.output_tokens;
  record.request_id = o.request_id;
  if (o.effect != routing::standing_effect::neutral) registry_.record_outcome(*o.who, record);
}

void outcomes::on_sample(const routing::latency_sample &s) {
  fleet::outcome_record record;
  record.generation = s.generation;
  record.rtt_ms = s.rtt_ms;
  record.request_id = s.request_id;
  record.kind = s.kind;
  registry_.record_sample(*s.who, record);
}

void outcomes::warn(const std::string &line) { observe::log("policy").warn("{}", line); }

void srtt_log::srtt_sample(std::string_view peer_id, std::string_view request_id, double r_ms, const fleet::latency_value &after,
                           bool stream) {
  spdlog::logger &to = observe::log("metrics");
  if (to.should_log(spdlog::level::debug)) to.debug("{}", fleet::format_srtt_sample(peer_id, request_id, r_ms, after, stream));
}

void fleet_log::on_registered(const std::shared_ptr<fleet::agent> &a, bool again) {
  const auto info = a->info();
  observe::log("router").info("agent {} {}: engine {}, {} model(s), capacity {}, from {}", a->peer_id(), again ? "is back" : "registered",
                              info->engine, info->models.size(), info->capacity, info->address);
}

void fleet_log::on_unregistered(const std::shared_ptr<fleet::agent> &a, fleet::departure why) {
  observe::log("router").warn("agent {} left: {}", a->peer_id(), to_string(why));
}

void fleet_log::on_notice(std::string_view peer_id, std::string_view text) {
  observe::log("link").warn("agent {}: {}", peer_id, text);
}

}  // namespace hive::apps
