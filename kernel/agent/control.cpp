#include "agent/control.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "observe/log.hpp"

namespace hive::agent {

namespace {
constexpr size_t most_page_bytes = 16 << 20;
constexpr uint64_t models_period_ns = 30 * ns_per_s;
constexpr uint64_t start_probe_ns = ns_per_s / 5;  // until the engine has been ready once
}  // namespace

// One page on its way. Destroying it ends the request.
class control::fetch final : private http::call_events {
 public:
  using done_fn = std::function<void(bool, uint32_t, const std::string &, const std::string &)>;

  fetch(http::client &client, const hive_page &page, done_fn done) : done_(std::move(done)) {
    http::call_request request;
    request.method.assign(page.method.ptr, page.method.len);
    request.target.assign(page.path.ptr, page.path.len);
    request.fields = {{"Accept", "*/*"}};
    request.deadline_ns = now_ns() + (page.timeout_ms == 0 ? 5000 : page.timeout_ms) * ns_per_ms;
    request.first_byte_deadline_ns = request.deadline_ns;
    call_ = client.start(std::move(request), *this);
  }

 private:
  void on_head(const http::response_head &head) override { status_ = static_cast<uint32_t>(head.status); }
  void on_data(std::string_view bytes) override {
    // A page past the bound is cut; the adapters read the whole lines of what is left.
    if (body_.size() < most_page_bytes) body_.append(bytes.substr(0, most_page_bytes - body_.size()));
  }
  void on_end() override { finish(true, {}); }
  void on_failed(const http::call_failure &failure) override { finish(false, failure.message); }
  void finish(bool answered, const std::string &trouble) {
    const done_fn done = std::move(done_);
    const std::string body = std::move(body_);
    const uint32_t status = status_;
    done(answered, status, body, trouble);  // may destroy this
  }

  done_fn done_;
  uint32_t status_ = 0;
  std::string body_;
  std::unique_ptr<http::call> call_;
};

control::control(loop &l, const engine_codec &codec, http::origin origin, const agent_options &options, const slot_count &slots,
                 control_events &events)
    : loop_(l),
      codec_(codec),
      options_(options),
      slots_(slots),
      events_(events),
      client_(l, std::move(origin), http::client_options{}),
      hardware_(options.gpu_devices_file),
      probe_timer_([this] { probe(); }),
      models_timer_([this] { discover(); }),
      metrics_timer_([this] { poll_metrics(); }),
      hardware_timer_([this] { sample_hardware(); }),
      publish_timer_([this] { publish(); }) {}

control::~control() = default;

void control::start() {
  if (options_.hardware_interval_ns != 0 && !hardware_.gpu_trouble().empty()) observe::log("hardware").info("no GPU readings: {}", hardware_.gpu_trouble());
  probe();
  sample_hardware();
  poll_metrics();
  loop_.arm_in(publish_timer_, options_.signal_interval_ns);
}

void control::stop() {
  for (callback_timer *t : {&probe_timer_, &models_timer_, &metrics_timer_, &hardware_timer_, &publish_timer_}) t->disarm();
  probe_fetch_.reset();
  models_fetch_.reset();
  metrics_fetch_.reset();
}

void control::get(int page, std::unique_ptr<fetch> &slot,
                  void (control::*done)(bool, uint32_t, const std::string &, const std::string &)) {
  if (slot) return;  // the previous one has its own deadline; never two of a kind at once
  slot = std::make_unique<fetch>(client_, codec_.page(page),
                                 [this, &slot, done](bool answered, uint32_t status, const std::string &body, const std::string &trouble) {
                                   const auto keep = std::move(slot);
                                   (this->*done)(answered, status, body, trouble);
                                 });
}

void control::probe() {
  loop_.arm_in(probe_timer_, known_ ? options_.health_interval_ns : std::min(start_probe_ns, options_.health_interval_ns));
  const int page = codec_.page_of(HIVE_PAGE_HEALTH);
  if (page < 0) return discover();
  get(page, probe_fetch_, &control::on_probe);
}

void control::on_probe(bool answered, uint32_t status, const std::string &body, const std::string &trouble) {
  page_news news;
  if (answered) codec_.parse(codec_.page_of(HIVE_PAGE_HEALTH), status, body, news);
  if (answered && news.state == HIVE_ENGINE_READY) {
    failures_ = 0;
    well_ = true;
    if (!ready_ || !known_) discover();
    return;
  }
  // A full engine may starve its own health page; while its answers flow it is busy, not dead.
  const uint64_t alive = slots_.last_engine_byte_ns.load(std::memory_order_relaxed);
  if (!answered && alive != 0 && now_ns() - alive < options_.health_interval_ns + ns_per_s) {
    failures_ = 0;
    return;
  }
  std::string reason = answered ? news.reason : trouble;
  if (reason.empty()) reason = "the health page answered " + std::to_string(status);
  if (answered && news.state == HIVE_ENGINE_STARTING) {
    failures_ = 0;
    well_ = false;
    return set_engine(false, "starting: " + reason);
  }
  if (++failures_ < options_.failure_threshold && ready_) return;
  well_ = false;
  set_engine(false, std::move(reason));
}

void control::discover() {
  loop_.arm_in(models_timer_, models_period_ns);
  const int page = codec_.page_of(HIVE_PAGE_MODELS);
  if (page < 0) {
    if (options_.models.empty()) return set_engine(false, "the engine lists no models: name one with --model");
    models_ = options_.models;
    known_ = true;
    return set_engine(true, {});
  }
  get(page, models_fetch_, &control::on_models);
}

void control::on_models(bool answered, uint32_t status, const std::string &body, const std::string &trouble) {
  page_news news;
  if (answered) codec_.parse(codec_.page_of(HIVE_PAGE_MODELS), status, body, news);
  if (!answered || news.models.empty()) {
    if (known_ && (!answered || status != 200)) return;  // the health page decides about an engine that was there
    const std::string why = answered && status == 200 ? "the engine lists no models"
                                                      : "the list of models could not be read: " +
                                                            (answered ? "status " + std::to_string(status) : trouble);
    return set_engine(false, why);
  }
  std::vector<std::string> found = std::move(news.models);
  if (!options_.models.empty()) {
    for (const std::string &wanted : options_.models)
      if (std::find(found.begin(), found.end(), wanted) == found.end() && !known_)
        observe::log("agent").warn("the engine does not list model '{}' named by --model; it lists {}", wanted, found.front());
    found = options_.models;
  }
  const bool changed = found != models_;
  const bool first = !known_;
  models_ = std::move(found);
  known_ = true;
  if (changed && !first && ready_) events_.on_engine(true, {}, models_);
  // A sick engine may still list its models.
  if (well_ || codec_.page_of(HIVE_PAGE_HEALTH) < 0) set_engine(true, {});
}

void control::set_engine(bool ready, std::string reason) {
  const bool edge = ready != ready_;
  if (edge && ready) observe::log("agent").info("the engine is ready with {} model(s), first '{}'", models_.size(), models_.front());
  if ((edge && !ready) || (!ready && !known_ && reason != reason_)) observe::log("agent").warn("the engine is not ready: {}", reason);
  const bool news = edge || (!ready && reason != reason_);
  ready_ = ready;
  reason_ = std::move(reason);
  if (known_ && news) events_.on_engine(ready_, reason_, models_);
}

void control::poll_metrics() {
  loop_.arm_in(metrics_timer_, options_.engine_interval_ns);
  const int page = codec_.page_of(HIVE_PAGE_METRICS);
  if (page >= 0) get(page, metrics_fetch_, &control::on_metrics);
}

void control::on_metrics(bool answered, uint32_t status, const std::string &body, const std::string &trouble) {
  page_news news;
  const bool read = answered && codec_.parse(codec_.page_of(HIVE_PAGE_METRICS), status, body, news);
  if (!read) {
    if (!metrics_broken_ && ready_)
      observe::log("agent").warn("the engine's metrics page cannot be read: {}", answered ? "status " + std::to_string(status) : trouble);
    metrics_broken_ = metrics_broken_ || ready_;
    return;
  }
  if (metrics_broken_) observe::log("agent").info("the engine's metrics page can be read again");
  metrics_broken_ = false;
  const uint64_t now = now_ns();
  const auto put = [&](const std::string &name, std::optional<double> value) {
    if (value) signals_[name] = {name, *value, now};
  };
  for (const auto &[name, value] : news.gauges) put(name, value);
  for (const auto &[name, total] : news.counters) {
    put(name + "_per_second", rates_[name].add(now, total));
    counters_[name] = total;
  }
  for (auto &[name, values] : news.labelled) labelled_[name] = std::move(values);
  for (auto &[name, totals] : news.histograms) {
    histogram_window &window = windows_[name];
    window.add(now, std::move(totals));
    if (const auto recent = window.recent()) {
      put("avg_" + name, mean_of(*recent));
      put("p90_" + name, quantile_of(*recent, 0.9));
    }
  }
}

void control::sample_hardware() {
  if (options_.hardware_interval_ns == 0) return;
  loop_.arm_in(hardware_timer_, options_.hardware_interval_ns);
  const hardware_sample sample = hardware_.sample();
  hardware_json_ = to_json(sample);
  const hardware_columns columns = columns_of(sample);
  const uint64_t now = now_ns();
  const auto put = [&](const char *name, const std::optional<double> &value) {
    if (value) signals_[name] = {name, *value, now};
  };
  put("gpu_temperature_c", columns.gpu_temperature_c);
  put("gpu_util_percent", columns.gpu_util_percent);
  put("gpu_vram_used_percent", columns.gpu_vram_used_percent);
  put("memory_used_percent", columns.memory_used_percent);
  put("cpu_usage_percent", columns.cpu_usage_percent);
}

void control::publish() {
  loop_.arm_in(publish_timer_, options_.signal_interval_ns);
  if (!known_) return;
  const uint64_t now = now_ns();
  std::vector<sampled_signal> fresh;
  for (auto it = signals_.begin(); it != signals_.end();) {
    // What has not been read for long is gone, not old: the router must see it as missing.
    if (now - it->second.sampled_ns > codec_.stale_after_ms(it->first) * ns_per_ms) {
      it = signals_.erase(it);
      continue;
    }
    fresh.push_back(it->second);
    ++it;
  }
  namespace json = boost::json;
  json::object out;
  boost::system::error_code ignored;
  if (!hardware_json_.empty()) out["hardware"] = json::parse(hardware_json_, ignored);
  json::object engine;
  for (const auto &[name, total] : counters_) engine[name + "_total"] = total;
  for (const auto &[name, values] : labelled_) {
    json::object by_label;
    for (const auto &[label, total] : values) by_label[label] = total;
    engine[name] = std::move(by_label);
  }
  for (const auto &[name, window] : windows_) {
    const histogram_totals &h = window.lifetime();
    if (!(h.total > 0)) continue;
    json::array buckets;
    for (size_t i = 0; i < h.bounds.size(); ++i) buckets.push_back(json::object{{"le", h.bounds[i]}, {"count", h.cumulative[i]}});
    engine[name + "_histogram"] = json::object{{"buckets", std::move(buckets)}, {"sum", h.sum}, {"count", h.total}};
  }
  if (!engine.empty()) out["engine"] = std::move(engine);
  events_.on_signals(std::move(fresh), json::serialize(out));
}

}  // namespace hive::agent
