#include "rules.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace hive::simulation {

namespace {

plugins::component_registry &registry() {
  static plugins::component_registry &r = *[] {
    auto *made = new plugins::component_registry;
    plugins::settings s;
    s.enable_trusted = false;
    s.trusted_dirs = {PLUGIN_DIR};
    s.enable = {"strategy_least_loaded", "strategy_power_of_two", "strategy_peak_ewma", "strategy_token_load",
                "strategy_prefix_affinity", "strategy_consistent_hash"};
    if (const status st = made->load(s); !st.ok()) throw std::runtime_error(st.text());
    return made;
  }();
  return r;
}

uint64_t ns_of(double s) { return ns_per_s + static_cast<uint64_t>(s * static_cast<double>(ns_per_s)); }

hive_str borrow(const std::string &s) { return {s.data(), s.size()}; }

uint64_t scrambled(uint64_t x) {
  x = (x ^ x >> 31) * 0xBF58476D1CE4E5B9u;
  return x ^ x >> 29;
}

}  // namespace

plugin_rule::plugin_rule(const std::string &id, const std::string &options, uint32_t agents) : pool_(agents), scores_(agents) {
  const plugins::component *c = registry().find(HIVE_KIND_STRATEGY, id);
  if (c == nullptr) throw std::runtime_error("no strategy " + id);
  auto made = plugins::instance::make(registry(), *c, {"simulation", "", options, {}}, services_);
  if (!made) throw std::runtime_error(made.why().text());
  it_ = std::move(*made);
  if (it_->strategy()->on_pool) it_->strategy()->on_pool(it_->self(), pool_.view());
}

void plugin_rule::at(double now_s) {
  const uint64_t now = ns_of(now_s);
  if (now > services_.clock.now()) services_.clock.advance(now - services_.clock.now());
}

hive_request plugin_rule::request_of(const arrival &r) {
  blocks_.clear();
  for (const uint64_t b : r.blocks) blocks_.push_back(scrambled(b + 1));
  hive_request request = check::sample_request(leases_);
  request.now_ns = services_.clock.now();
  request.session = borrow(r.session);
  request.tenant = borrow(r.tenant);
  request.prompt_tokens = r.prompt;
  request.output_tokens = r.output;
  request.prefix_blocks = blocks_.data();
  request.prefix_block_count = blocks_.size();
  return request;
}

double plugin_rule::time_selection_us(const arrival &r, int times) {
  blocks_.reserve(std::max(blocks_.capacity(), r.blocks.size()));
  const hive_pool *view = pool_.view();
  const hive_request request = request_of(r);
  hive_choice choice{sizeof choice, UINT32_MAX, scores_.data(), view->count, 0};
  const uint64_t begin = now_ns();
  for (int i = 0; i < times; ++i)
    if (it_->strategy()->select(it_->self(), &request, view, &choice) != HIVE_OK) throw std::runtime_error("no choice");
  return static_cast<double>(now_ns() - begin) / 1000 / times;
}

uint32_t plugin_rule::choose(double now_s, const arrival &r, const std::vector<agent_state> &seen) {
  at(now_s);
  std::vector<double> load, active, capacity, srtt, tokens;
  for (const agent_state &a : seen) {
    load.push_back(a.load());
    active.push_back(a.active);
    capacity.push_back(a.capacity);
    srtt.push_back(a.srtt_ms > 0 ? a.srtt_ms : std::numeric_limits<double>::quiet_NaN());
    tokens.push_back(a.tokens);
  }
  pool_.set("load", load);
  pool_.set("active_requests", active);
  pool_.set("capacity", capacity);
  pool_.set("srtt_ms", srtt);
  pool_.set("active_tokens", tokens);
  const hive_request request = request_of(r);
  const hive_pool *view = pool_.view();
  hive_choice choice{sizeof choice, UINT32_MAX, scores_.data(), view->count, 0};
  if (it_->strategy()->select(it_->self(), &request, view, &choice) != HIVE_OK) throw std::runtime_error("no choice");
  ++leases_;
  if (it_->strategy()->on_choice) it_->strategy()->on_choice(it_->self(), &request, view, choice.index);
  return choice.index;
}

void plugin_rule::tell(double now_s, const outcome &from) {
  if (!it_->strategy()->on_outcome) return;
  at(now_s);
  hive_outcome o{};
  o.struct_size = sizeof o;
  o.phase = from.end ? HIVE_PHASE_END : HIVE_PHASE_FIRST_TOKEN;
  o.agent_key = pool_.agent(from.agent).agent_key;
  o.index = o.agent_key == 0 ? UINT32_MAX : from.agent;
  o.status = HIVE_OK;
  o.since_lease_ns = services_.clock.now() - ns_of(now_s - from.since_s);
  o.prompt_tokens = from.end ? from.request->prompt : HIVE_TOKENS_UNKNOWN;
  o.output_tokens = from.end ? from.request->output : HIVE_TOKENS_UNKNOWN;
  o.cached_tokens = from.end ? static_cast<uint64_t>(from.cached_tokens) : HIVE_TOKENS_UNKNOWN;
  it_->strategy()->on_outcome(it_->self(), &o);
}

void plugin_rule::let_go(uint32_t agent) {
  join(agent, 0);
}

void plugin_rule::join(uint32_t agent, uint64_t key) {
  pool_.agent(agent).agent_key = key;
  pool_.eligible(agent, key != 0);
  pool_.new_epoch();
  if (it_->strategy()->on_pool) it_->strategy()->on_pool(it_->self(), pool_.view());
}

uint32_t longest_match::choose(double, const arrival &r, const std::vector<agent_state> &seen) {
  const auto fewer = [](const agent_state &a, const agent_state &b) { return a.active < b.active; };
  const auto [idle, busy] = std::minmax_element(seen.begin(), seen.end(), fewer);
  uint32_t pick = static_cast<uint32_t>(idle - seen.begin());
  if (!(busy->active - idle->active > 64 && busy->active > 1.5 * idle->active)) {
    std::vector<size_t> matched;
    for (const lru_cache &c : seen_) matched.push_back(c.match(r.blocks));
    const auto best = std::max_element(matched.begin(), matched.end());
    if (static_cast<double>(*best) > 0.3 * static_cast<double>(std::max<size_t>(1, r.blocks.size()))) {
      pick = static_cast<uint32_t>(best - matched.begin());
    } else {
      std::vector<uint32_t> ties;
      for (uint32_t i = 0; i < seen.size(); ++i)
        if (seen[i].active == idle->active) ties.push_back(i);
      pick = ties[random_() % ties.size()];
    }
  }
  seen_[pick].touch(r.blocks);
  return pick;
}

}  // namespace hive::simulation
