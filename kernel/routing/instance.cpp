#include "routing/instance.hpp"

#include "base/clock.hpp"
#include "plugins/text.hpp"

namespace hive::routing {

void instance::end(hive_status answer, bool wrong_answer) {
  if (answer < 0 || wrong_answer) errors.store(errors.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  plugin->end(answer, wrong_answer);
}

void instance::on_pool(const hive_pool &pool) {
  if (seen_epoch == pool.epoch) return;
  seen_epoch = pool.epoch;
  const auto *s = strategy();
  const auto *g = gate();
  if (s && HIVE_HAS(hive_strategy_vtable, s, on_pool) && s->on_pool && begin(now_ns())) {
    s->on_pool(self(), &pool);
    end(HIVE_OK);
  }
  if (g && HIVE_HAS(hive_gate_vtable, g, on_pool) && g->on_pool && begin(now_ns())) {
    g->on_pool(self(), &pool);
    end(HIVE_OK);
  }
}

bool instance::wants_choice() const {
  if (const auto *s = strategy()) return HIVE_HAS(hive_strategy_vtable, s, on_choice) && s->on_choice;
  if (const auto *g = gate()) return HIVE_HAS(hive_gate_vtable, g, on_choice) && g->on_choice;
  return false;
}

bool instance::wants_outcome() const {
  if (const auto *s = strategy()) return HIVE_HAS(hive_strategy_vtable, s, on_outcome) && s->on_outcome;
  if (const auto *g = gate()) return HIVE_HAS(hive_gate_vtable, g, on_outcome) && g->on_outcome;
  return false;
}

void instance::on_choice(const hive_request &request, const hive_pool &pool, uint32_t index) {
  on_pool(pool);
  if (!wants_choice() || !begin(request.now_ns)) return;
  if (const auto *s = strategy())
    s->on_choice(self(), &request, &pool, index);
  else
    gate()->on_choice(self(), &request, &pool, index);
  end(HIVE_OK);
}

void instance::on_outcome(const hive_outcome &outcome) {
  if (!wants_outcome() || !begin(now_ns())) return;
  if (const auto *s = strategy())
    s->on_outcome(self(), &outcome);
  else
    gate()->on_outcome(self(), &outcome);
  end(HIVE_OK);
}

result<std::shared_ptr<instance>> instance_store::get(const place &at, const hive_component *component,
                                                      const std::string &options, const custom_rules &rules) {
  const std::string id = component ? plugins::text_of(component->id) : std::string();
  const std::string separator(1, '\0');
  std::string key;
  for (const std::string &part : {std::to_string(component ? component->kind : 0), id, options, at.document, at.step,
                                  std::to_string(at.nth), at.pool})
    key += part + separator;
  for (const auto &[field, json] : rules) key += field + separator + json + separator;
  const auto found = instances_.find(key);
  // A pool that was dropped and made again is another pool: its lane differs.
  if (found != instances_.end() && found->second->where == at.where) return found->second;
  auto made = std::make_shared<instance>();
  made->component = component;
  made->where = at.where;
  made->name = (id.empty() ? std::string("built-in order") : id) + " " + at.step + "@" + at.pool;
  if (component) {
    auto plugin = source_.create(*component, at.step + "@" + at.pool,
                                 "policy " + (at.document.empty() ? std::string("(global)") : at.document) + ", step " +
                                     at.step + ", pool " + at.pool,
                                 options, rules);
    if (!plugin) return plugin.why();
    made->plugin = *std::move(plugin);
  }
  // The old one, if a lane was replaced, stays alive under a key that nobody asks for until its routes are gone.
  if (found != instances_.end()) {
    auto old = std::move(found->second);
    instances_.erase(found);
    instances_.emplace(key + std::to_string(reinterpret_cast<uintptr_t>(old.get())), std::move(old));
  }
  instances_.emplace(std::move(key), made);
  return made;
}

std::vector<instance *> instance_store::of(const lane *where) const {
  std::vector<instance *> out;
  for (const auto &[key, one] : instances_)
    if (one->where.get() == where) out.push_back(one.get());
  return out;
}

std::vector<std::shared_ptr<instance>> instance_store::take_unused() {
  std::vector<std::shared_ptr<instance>> out;
  for (auto it = instances_.begin(); it != instances_.end();) {
    if (it->second.use_count() > 1) {
      ++it;
      continue;
    }
    out.push_back(std::move(it->second));
    it = instances_.erase(it);
  }
  return out;
}

std::vector<std::shared_ptr<const instance>> instance_store::all() const {
  std::vector<std::shared_ptr<const instance>> out;
  for (const auto &[key, one] : instances_) out.push_back(one);
  return out;
}

}  // namespace hive::routing
