#include "plugins/instance.hpp"

#include <algorithm>
#include <cmath>

#include "plugins/error_words.hpp"
#include "plugins/text.hpp"

namespace hive::plugins {
namespace {

constexpr uint64_t log_per_second = 20;
constexpr size_t log_line_limit = 4096;

template <size_t N>
void copy(std::array<char, N> &to, std::string_view from) {
  const size_t n = std::min(from.size(), N - 1);
  std::copy_n(from.data(), n, to.data());
  to[n] = '\0';
}

bool metric_name(std::string_view s) {
  if (s.empty() || s.size() > 100) return false;
  for (const char c : s) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return true;
}

}  // namespace

// What the plugin sees behind hive_host; ctx is the instance.
struct instance::thunks {
  static instance &of(const hive_host *h) { return *static_cast<instance *>(h->ctx); }

  static void log(const hive_host *h, int32_t level, hive_str line) noexcept {
    instance &i = of(h);
    uint64_t dropped = 0;
    if (!i.may_log(i.services_.now(), dropped)) return;
    if (dropped != 0) {
      i.services_.log(HIVE_LOG_WARN, i.component_name_, i.options_.name, std::to_string(dropped) + " lines were dropped, it logs too much");
    }
    i.services_.log(std::clamp<int32_t>(level, HIVE_LOG_DEBUG, HIVE_LOG_ERROR), i.component_name_, i.options_.name, view(line).substr(0, log_line_limit));
  }
  static uint64_t now(const hive_host *h) noexcept { return of(h).services_.now(); }
  static hive_status post(const hive_host *h, hive_task task, void *arg) noexcept {
    if (task == nullptr) return HIVE_E_ARGUMENT;
    const bool taken = of(h).services_.post([alive = of(h).alive_, task, arg] {
      if (*alive) task(arg);
    });
    return taken ? HIVE_OK : HIVE_E_UNAVAILABLE;
  }
  static hive_column column(const hive_host *h, hive_str name) noexcept {
    instance &i = of(h);
    if (!i.creating_ || name.ptr == nullptr || name.len == 0 || name.len > 128) return 0;
    const hive_column id = i.services_.column(view(name));
    if (id != 0) i.columns_.push_back(id);
    return id;
  }
  static hive_metric metric_register(const hive_host *h, int32_t kind, hive_str name, hive_str help) noexcept {
    instance &i = of(h);
    if (!i.creating_ || !metric_name(view(name)) || (kind != HIVE_METRIC_COUNTER && kind != HIVE_METRIC_GAUGE)) return 0;
    std::string full = "hivenet_router_plugin_" + i.component_name_ + "_" + std::string(view(name));
    std::replace_if(full.begin(), full.end(), [](char c) { return c == '/' || c == '-'; }, '_');
    return i.services_.register_metric(kind, full, std::string(view(help)));
  }
  static void metric_add(const hive_host *h, hive_metric m, double delta) noexcept {
    if (m != 0 && std::isfinite(delta)) of(h).services_.add_metric(m, delta);  // a sum that was NaN once stays it
  }
  static void request_pump(const hive_host *h) noexcept {
    if (of(h).pump_ != nullptr) of(h).pump_(of(h).pump_ctx_);
  }
};

instance::instance(component_registry &registry, const component &what, instance_options options, host_services &services)
    : registry_(registry),
      what_(what),
      options_(std::move(options)),
      services_(services),
      component_name_(std::string(kind_name(what.kind())) + "/" + what.id()),
      host_{sizeof(hive_host),   HIVE_ABI_MAJOR,   HIVE_ABI_MINOR,           this,                &thunks::log,         &thunks::now,
            &thunks::post,       &thunks::column,  &thunks::metric_register, &thunks::metric_add, &thunks::request_pump},
      alive_(std::make_shared<bool>(true)) {
  copy(marker_.component, component_name_);
  copy(marker_.instance, options_.name);
}

result<std::unique_ptr<instance>> instance::make(component_registry &registry, const component &what, instance_options options,
                                                 host_services &services) {
  auto json = registry.configure(what, options.json, options.name);
  if (!json) return json.why();
  options.json = std::move(*json);
  std::unique_ptr<instance> made(new instance(registry, what, std::move(options), services));
  instance &i = *made;
  if (what.table()->create != nullptr) {
    std::vector<hive_rule> rules;
    std::vector<const hive_rule *> pointers;
    for (const auto &[field, rule] : i.options_.rules) rules.push_back({{field.data(), field.size()}, {rule.data(), rule.size()}});
    for (const auto &r : rules) pointers.push_back(&r);
    const hive_gate_setup gate{sizeof(hive_gate_setup), static_cast<uint32_t>(rules.size()), pointers.data()};
    const hive_config config{sizeof(hive_config),
                             0,
                             {i.options_.name.data(), i.options_.name.size()},
                             {i.options_.json.data(), i.options_.json.size()},
                             what.kind() == HIVE_KIND_GATE ? &gate : nullptr};
    error_words said;
    i.creating_ = true;
    const crash_marker *outer = std::exchange(on_stack, &i.marker_);
    void *self = nullptr;
    const hive_status s = what.table()->create(&i.host_, &config, said.sink(), &self);
    on_stack = outer;
    i.creating_ = false;
    if (s != HIVE_OK) {
      return fail(code_of(s), i.component_name_ + " cannot be created: " + said.or_status(s));
    }
    if (self == nullptr) return fail(errc::internal, i.component_name_ + " cannot be created: it answered OK and no instance");
    i.self_ = self;
  }
  registry.track(i);
  return made;
}

instance::~instance() {
  *alive_ = false;
  registry_.untrack(*this);
  if (self_ == nullptr) return;
  const crash_marker *outer = std::exchange(on_stack, &marker_);
  what_.table()->destroy(self_);
  on_stack = outer;
}

bool instance::may_log(uint64_t now, uint64_t &dropped) {
  std::lock_guard lock(log_mutex_);
  if (log_refill_ns_ == 0) log_refill_ns_ = now;
  constexpr uint64_t each = ns_per_s / log_per_second;
  // Another thread that looked at the clock later may have been here first.
  const uint64_t refill = now > log_refill_ns_ ? (now - log_refill_ns_) / each : 0;
  log_refill_ns_ += refill * each;
  log_tokens_ = std::min(log_burst, log_tokens_ + refill);
  if (log_tokens_ == 0) {
    ++log_dropped_;
    return false;
  }
  --log_tokens_;
  dropped = std::exchange(log_dropped_, 0);
  return true;
}

void call::failed(std::string_view why, bool wrong) {
  finish();
  const bool was_open = i_.circuit_.open();
  i_.stats_.failed(why, wrong);
  i_.circuit_.bad(i_.services_.now());
  if (!was_open && i_.circuit_.open()) {
    i_.services_.log(HIVE_LOG_ERROR, i_.component_name_, i_.options_.name, "keeps failing, its fallback is used for 30 s; last: " + std::string(why));
  }
}

}  // namespace hive::plugins
