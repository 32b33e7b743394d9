#include "agent/control.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "observe/log.hpp"

namespace hive::agent {

namespace {

constexpr size_t most_page_bytes = 16 << 20;
constexpr uint64_t start_probe_ns = ns_per_s / 5;  // until the engine has been ready once
constexpr uint64_t page_timeout_ns = 5 * ns_per_s;

hive_page get_page(std::string_view path) {
  return {sizeof(hive_page), HIVE_PAGE_HEALTH, HIVE_STR("GET"), {path.data(), path.size()}, 0, 0};
}

}  // namespace

control::control(loop &l, const engine_codec &codec, http::origin origin, const agent_options &options, const slot_count &slots,
                 control_events &events)
    : loop_(l),
      codec_(codec),
      options_(options),
      slots_(slots),
      events_(events),
      client_(l, std::move(origin), client_options()),
      hardware_(options.gpu_devices_file),
      probe_timer_([this] { probe(); }),
      models_timer_([this] { discover(); }),
      metrics_timer_([this] { poll_metrics(); }),
      load_timer_([this] { poll_load(); }),
      hardware_timer_([this] { sample_hardware(); }),
      publish_timer_([this] { publish(); }),
      signals_(codec) {
  if (options.health_url.empty()) return;
  if (auto where = http::parse_origin(options.health_url)) {
    health_path_ = where->base.empty() ? "/" : std::exchange(where->base, {});
    health_client_ = std::make_unique<http::client>(l, *std::move(where), client_options());
  } else {
    observe::log("agent").error("the health URL is not used: {}", where.why().text());
  }
}

control::~control() = default;

http::client_options control::client_options() const {
  http::client_options o;
  o.requests_per_connection = codec_.description().requests_per_connection;
  if (codec_.description().idle_limit_ms != 0) o.idle_limit_ns = codec_.description().idle_limit_ms * ns_per_ms;
  return o;
}

void control::start() {
  if (options_.hardware_interval_ns != 0 && !hardware_.gpu_trouble().empty()) observe::log("hardware").info("no GPU readings: {}", hardware_.gpu_trouble());
  probe();
  sample_hardware();
  poll_metrics();
  poll_load();
  loop_.arm_in(publish_timer_, options_.signal_interval_ns);
}

void control::stop() {
  for (callback_timer *t : {&probe_timer_, &models_timer_, &metrics_timer_, &load_timer_, &hardware_timer_, &publish_timer_}) t->disarm();
  for (auto *f : {&probe_fetch_, &models_fetch_, &metrics_fetch_, &load_fetch_}) f->reset();
}

uint64_t control::period_of(int page, uint64_t own_ns) const {
  const uint32_t asked_ms = page < 0 ? 0 : codec_.page(page).period_ms;
  return asked_ms == 0 ? own_ns : asked_ms * ns_per_ms;
}

void control::get(http::client &client, const hive_page &page, std::unique_ptr<page_fetch> &slot, on_page done) {
  if (slot) return;  // the previous one has its own deadline; never two of a kind at once
  const uint64_t limit_ns = page.timeout_ms == 0 ? page_timeout_ns : page.timeout_ms * ns_per_ms;
  slot = std::make_unique<page_fetch>(client, page, limit_ns, most_page_bytes, [this, &slot, done](const page_answer &answer) {
    const auto keep = std::move(slot);
    (this->*done)(answer);
  });
}

void control::probe() {
  const int page = codec_.page_of(HIVE_PAGE_HEALTH);
  const uint64_t period = health_client_ ? options_.health_interval_ns : period_of(page, options_.health_interval_ns);
  loop_.arm_in(probe_timer_, known_ ? period : std::min(start_probe_ns, period));
  if (health_client_) return get(*health_client_, get_page(health_path_), probe_fetch_, &control::on_health_url);
  if (page >= 0) return get(client_, codec_.page(page), probe_fetch_, &control::on_probe);
  models_decide_ = true;
  discover();
}

void control::on_health_url(const page_answer &answer) {
  if (!answer.answered()) return engine_failed(answer, answer.trouble);
  const bool good = answer.status == 200;
  judge_health(answer, good ? HIVE_ENGINE_READY : HIVE_ENGINE_DOWN, "the health URL answered " + std::to_string(answer.status));
}

void control::on_probe(const page_answer &answer) {
  if (!answer.answered()) return engine_failed(answer, answer.trouble);
  page_news news;
  const bool read = codec_.parse(codec_.page_of(HIVE_PAGE_HEALTH), answer.status, answer.body, news);
  models_decide_ = read && news.state == 0;
  if (models_decide_) return discover();
  judge_health(answer, news.state, std::move(news.reason));
}

void control::judge_health(const page_answer &answer, int32_t state, std::string reason) {
  if (state == HIVE_ENGINE_READY) {
    on_well();
    if (!ready_ || !known_) discover();
    return;
  }
  if (reason.empty()) reason = "the health page answered " + std::to_string(answer.status);
  if (state != HIVE_ENGINE_STARTING) return engine_failed(answer, std::move(reason));
  failures_ = 0;
  well_ = false;
  set_engine(false, "starting: " + reason);
}

void control::on_well() {
  failures_ = 0;
  well_ = true;
  last_well_ns_ = now_ns();
}

// A full engine may starve its own pages; while it works it is busy, not dead.
bool control::busy() const {
  const uint64_t byte = slots_.last_engine_byte_ns.load(std::memory_order_relaxed), now = now_ns();
  if (byte != 0 && now - byte < options_.health_interval_ns + ns_per_s) return true;
  const uint64_t heard = std::max(byte, last_well_ns_);
  return slots_.in_flight.load(std::memory_order_relaxed) > 0 && heard != 0 && now - heard < options_.busy_limit_ns;
}

void control::engine_failed(const page_answer &answer, std::string reason) {
  ++failures_;
  if (answer.timed_out && busy()) return;
  if (failures_ < options_.failure_threshold && ready_) return;
  well_ = false;
  set_engine(false, std::move(reason));
}

void control::discover() {
  const int page = codec_.page_of(HIVE_PAGE_MODELS);
  loop_.arm_in(models_timer_, period_of(page, options_.models_interval_ns));
  if (page >= 0) return get(client_, codec_.page(page), models_fetch_, &control::on_models);
  if (options_.models.empty()) return set_engine(false, "the engine lists no models: name one with --model");
  take_models(options_.models);
}

void control::on_models(const page_answer &answer) {
  page_news news;
  const bool read = answer.answered() && codec_.parse(codec_.page_of(HIVE_PAGE_MODELS), answer.status, answer.body, news);
  const bool listed = read && answer.status == 200;
  const bool keeps_no_list = answer.answered() && (answer.status == 404 || answer.status == 405 || answer.status == 501);
  if (keeps_no_list && !options_.models.empty()) return take_models(options_.models);
  if (listed && !news.models.empty()) {
    if (options_.models.empty()) return take_models(std::move(news.models));
    for (const std::string &wanted : options_.models)
      if (std::find(news.models.begin(), news.models.end(), wanted) == news.models.end() && !known_)
        observe::log("agent").warn("the engine does not list model '{}' named by --model; it lists {}", wanted, news.models.front());
    return take_models(options_.models);
  }
  if (models_decide_ && news.state == HIVE_ENGINE_STARTING) return judge_health(answer, news.state, std::move(news.reason));
  std::string why = listed ? "the engine lists no models"
                           : "the list of models could not be read: " +
                                 (answer.answered() ? "status " + std::to_string(answer.status) : answer.trouble);
  if (listed || !known_) return set_engine(false, std::move(why));
  // The health page decides about an engine that was there; where there is none, this is it.
  if (models_decide_) engine_failed(answer, std::move(why));
}

void control::take_models(std::vector<std::string> found) {
  const bool changed = found != models_;
  const bool first = !known_;
  models_ = std::move(found);
  known_ = true;
  if (models_decide_) on_well();
  if (changed && !first) observe::log("agent").info("the engine lists {} model(s) now, first '{}'", models_.size(), models_.front());
  if (changed && !first && ready_) events_.on_engine(true, {}, models_);
  // A sick engine may still list its models.
  if (well_) set_engine(true, {});
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
  const int page = codec_.page_of(HIVE_PAGE_METRICS);
  loop_.arm_in(metrics_timer_, period_of(page, options_.engine_interval_ns));
  if (page >= 0) get(client_, codec_.page(page), metrics_fetch_, &control::on_metrics);
}

void control::on_metrics(const page_answer &answer) {
  page_news news;
  if (!answer.answered() || !codec_.parse(codec_.page_of(HIVE_PAGE_METRICS), answer.status, answer.body, news)) {
    if (!metrics_broken_ && ready_)
      observe::log("agent").warn("the engine's metrics page cannot be read: {}",
                                 answer.answered() ? "status " + std::to_string(answer.status) : answer.trouble);
    metrics_broken_ = metrics_broken_ || ready_;
    return;
  }
  if (metrics_broken_) observe::log("agent").info("the engine's metrics page can be read again");
  metrics_broken_ = false;
  signals_.take(now_ns(), std::move(news));
}

void control::poll_load() {
  const int page = codec_.page_of(HIVE_PAGE_LOAD);
  if (page < 0) return;
  loop_.arm_in(load_timer_, period_of(page, options_.engine_interval_ns));
  get(client_, codec_.page(page), load_fetch_, &control::on_load);
}

// The metrics page has the complaints; an engine that tells its load elsewhere tells it too, or not at all.
void control::on_load(const page_answer &answer) {
  page_news news;
  if (answer.answered() && codec_.parse(codec_.page_of(HIVE_PAGE_LOAD), answer.status, answer.body, news))
    signals_.take(now_ns(), std::move(news));
}

void control::sample_hardware() {
  if (options_.hardware_interval_ns == 0) return;
  loop_.arm_in(hardware_timer_, options_.hardware_interval_ns);
  const hardware_sample sample = hardware_.sample();
  hardware_json_ = json_of(sample);
  const hardware_columns columns = columns_of(sample);
  const uint64_t now = now_ns();
  signals_.put(now, "gpu_temperature_c", columns.gpu_temperature_c);
  signals_.put(now, "gpu_util_percent", columns.gpu_util_percent);
  signals_.put(now, "gpu_vram_used_percent", columns.gpu_vram_used_percent);
  signals_.put(now, "memory_used_percent", columns.memory_used_percent);
  signals_.put(now, "cpu_usage_percent", columns.cpu_usage_percent);
}

void control::publish() {
  loop_.arm_in(publish_timer_, options_.signal_interval_ns);
  if (!known_) return;
  const uint64_t now = now_ns();
  boost::json::object out;
  if (!hardware_json_.empty()) out["hardware"] = hardware_json_;
  if (boost::json::object engine = signals_.structured(now); !engine.empty()) out["engine"] = std::move(engine);
  events_.on_signals(signals_.fresh(now), boost::json::serialize(out));
}

}  // namespace hive::agent
