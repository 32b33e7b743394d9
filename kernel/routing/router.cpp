#include "routing/router.hpp"

#include <algorithm>
#include <mutex>

#include "base/clock.hpp"
#include "routing/session_impl.hpp"

namespace hive::routing {

router::router(component_source &source, fleet::column_table &columns, outcome_recorder &recorder,
               const router_options &options)
    : source_(source), columns_(columns), recorder_(recorder), options_(options), store_(source) {
  cell_.swap(std::make_shared<snapshot>(default_policy(), snapshot::named_documents{}));
}

// Sessions are gone by now; nobody may call an instance while it is destroyed.
router::~router() {
  const auto last = cell_.swap(nullptr);
  for (const auto &[model, one] : last->routes()) {
    const std::lock_guard lock(one->where->pool->mutex());
    one->where->observe({});
  }
}

result<std::shared_ptr<const route>> router::compile(const snapshot &of, const std::shared_ptr<lane> &where) {
  auto made = std::make_shared<route>();
  made->document = of.document_for(where->pool->model());
  made->where = where;
  const step::surroundings around{source_, store_, columns_, where, options_.max_tries};
  for (size_t i = 0; i < made->document->steps.size(); ++i) {
    auto compiled = step::compile(*made->document, i, around);
    if (!compiled) return compiled.why();
    made->steps.push_back(*std::move(compiled));
  }
  auto shed = pressure::compile(*made->document, source_, columns_);
  if (!shed) return shed.why();
  made->shed = *std::move(shed);
  return std::shared_ptr<const route>(std::move(made));
}

void router::observe_all(const snapshot &now) {
  for (const auto &[model, one] : now.routes()) {
    const auto instances = store_.of(one->where.get());
    const std::lock_guard lock(one->where->pool->mutex());
    one->where->observe(instances);
  }
}

void router::publish(std::shared_ptr<const snapshot> next) {
  observe_all(*next);
  cell_.swap(std::move(next));
  sweep();
}

status router::judge_provider(const policy_document &d) const {
  if (!d.provider || !options_.judge_provider) return {};
  const status s = options_.judge_provider(*d.provider);
  return s || d.name.empty() ? s : s.at("policy " + d.name);
}

status router::set_policies(std::shared_ptr<const policy_document> global, snapshot::named_documents named) {
  if (const status s = judge_provider(*global); !s) return s;
  for (const auto &[name, document] : named)
    if (const status s = judge_provider(*document); !s) return s;
  auto next = std::make_shared<snapshot>(std::move(global), std::move(named));
  const auto now = cell_.get();
  for (const auto &[model, one] : now->routes()) {
    auto compiled = compile(*next, one->where);
    if (!compiled) return fail(compiled.why().code(), "policy kept as it was: " + compiled.why().text());
    next->add(*std::move(compiled));
  }
  publish(std::move(next));
  return {};
}

status router::add_pool(std::shared_ptr<fleet::pool> pool) {
  const auto now = cell_.get();
  const std::string model = pool->model();
  if (now->route_for(model)) return fail(errc::conflict, "model '" + model + "' has a pool already");
  auto next = std::make_shared<snapshot>(now->global(), now->named());
  for (const auto &[name, one] : now->routes()) next->add(one);
  auto where = std::make_shared<lane>(std::move(pool), options_.line, options_.line_clock);
  auto compiled = compile(*next, where);
  if (!compiled) return fail(compiled.why().code(), "pool of model '" + model + "': " + compiled.why().text());
  next->add(*std::move(compiled));
  publish(std::move(next));
  return {};
}

void router::remove_pool(std::string_view model) {
  const auto now = cell_.get();
  auto next = std::make_shared<snapshot>(now->global(), now->named());
  for (const auto &[name, one] : now->routes())
    if (name != model) next->add(one);
  publish(std::move(next));
}

void router::sweep() {
  const auto unused = store_.take_unused();
  if (!unused.empty()) {
    observe_all(*cell_.get());
    // A removed pool has no route any more, but sessions may still hold its lane.
    for (const auto &one : unused) {
      const std::lock_guard lock(one->where->pool->mutex());
      one->where->observe(store_.of(one->where.get()));
    }
  }
  for (const auto &one : store_.all()) {
    const uint64_t errors = one->errors.load(std::memory_order_relaxed);
    uint64_t &told = told_errors_[one.get()];
    if (errors > told)
      recorder_.warn(one->name + ": " + std::to_string(errors - told) + " wrong or failed answers, the kernel decided instead");
    told = errors;
  }
  for (const auto &one : unused) told_errors_.erase(one.get());
  unpublished_.look(*cell_.get(), columns_, now_ns(), recorder_);
}

std::vector<router::line_state> router::lines() const {
  std::vector<line_state> out;
  const auto now = cell_.get();
  for (const auto &[model, one] : now->routes()) out.push_back({model, one->where->line.stats(), one->where->retries_refused.load(std::memory_order_relaxed)});
  std::sort(out.begin(), out.end(), [](const line_state &a, const line_state &b) { return a.model < b.model; });
  return out;
}

bool router::serves(std::string_view model, std::string_view capability) const {
  const auto found = cell_.get()->route_for(model);
  if (!found) return false;
  const fleet::pool &pool = *found->where->pool;
  std::lock_guard held(pool.mutex());
  for (uint32_t i = 0; i < pool.count(); ++i)
    if (const fleet::pool_row &row = pool.row(i); row.who && row.info && can_do(*row.info, capability)) return true;
  return false;
}

explanation router::explain(const request_facts &facts) const { return routing::explain(*cell_.get(), facts, columns_); }

std::unique_ptr<session> router::open(loop &on, const request_facts &facts, session_events &events, governed by) {
  return std::make_unique<session_impl>(on, facts, events, recorder_, options_, std::move(by.way), std::move(by.document));
}

}  // namespace hive::routing
