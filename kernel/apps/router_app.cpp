#include "apps/router_app.hpp"

#include <unistd.h>

#include <boost/asio/signal_set.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <csignal>
#include <utility>

#include "apps/metrics_page.hpp"
#include "apps/program.hpp"
#include "apps/router_unit.hpp"
#include "observe/log.hpp"

namespace hive::apps {

router_app::router_app(config::router_settings settings)
    : settings_(std::move(settings)),
      memory_(settings_.memory_budget.bytes),
      exporter_(program_version),
      housekeeping_timer_([this] { housekeeping(); }),
      drain_timer_([this] { check_drained(); }),
      drain_({.delay_ns = settings_.drain_delay.ns, .timeout_ns = settings_.drain_timeout.ns}) {}

router_app::~router_app() {
  stop_units();
  embedded_.reset();
  for (auto &u : units_) u->server.reset();  // what still ran is over, and charged
  if (fleet_) fleet_->flush_history();
  if (quota_store_) quota_store_->flush();
  if (storage_) storage_->stop();
}

// `everywhere` is called on the control thread once every worker has them.
void router_app::publish_keys(access::ring keys, std::function<void()> everywhere) {
  if (quotas_) set_quota_keys(keys);
  struct round {
    std::atomic<size_t> missing;
    std::function<void()> done;
  };
  const auto one = std::make_shared<round>(units_.size(), std::move(everywhere));
  for (auto &u : units_)
    u->home.post([this, unit = u.get(), keys, one] {
      unit->gateway->set_keys(keys);
      if (one->missing.fetch_sub(1) == 1) control_.post(std::move(one->done));
    });
}

// Each part is taken whole or stays as it was, whatever becomes of the others; it is judged beside what holds at that moment, so
// that no order of good and bad ones leaves two that exclude each other. Keys before policies (docs/policy-api.md), and before
// the secrets: what was an admin key may become a secret in one go.
void router_app::reload(std::string_view trigger, std::function<void(const admin::reload_report &)> done) {
  admin::reload_report report;
  if (audit_) audit_->reopen();
  if (edge_->for_clients()) report.push_back({"certificates", reload_certificates()});
  if (const auto read = access_->reload()) {
    exporter_.on_auth_reload(read->ok());
    report.push_back({"keys", *read});
  }
  for (admin::reloaded_part &part : reload_link(settings_, *access_, hubs_, *roster_, *directory_)) report.push_back(std::move(part));
  auto aliases = config::read_model_aliases(settings_.config_file);
  if (aliases) names_.set(*std::move(aliases));
  else observe::log("router").error("the model aliases stay as they were: {}", aliases.why().text());
  report.push_back({"model_aliases", aliases.why()});
  policies_->library().reload(trigger, [report = std::move(report), done = std::move(done)](const status &read) mutable {
    report.push_back({"policies", read});
    if (done) done(report);
  });
}

std::string router_app::ready_line() const {
  namespace json = boost::json;
  json::object out{{"ready", true},
                   {"pid", ::getpid()},
                   {"version", program_version},
                   {"http", units_.front()->server->address()},
                   {"metrics", metrics_page_->address()},
                   {"link", json::array(link_addresses_.begin(), link_addresses_.end())}};
  if (!link_identity_.router_id.empty()) out["router_id"] = link_identity_.router_id;
  if (edge_->for_clients()) out["tls"] = true;
  if (units_.front()->admin_server) out["admin"] = units_.front()->admin_server->address();
  if (!embedded_->empty()) out["embedded"] = embedded_->json();
  return json::serialize(out);
}

void router_app::run() {
  const auto report = [](const char *what) { observe::log("kernel").error("exception on a loop: {}", what); };
  for (auto &u : units_)
    u->thread = std::thread([unit = u.get(), report] { unit->home.run(report); });
  boost::asio::signal_set signals(control_.io(), SIGINT, SIGTERM, SIGHUP);
  signals.add(SIGUSR1);
  std::function<void(const boost::system::error_code &, int)> on_signal = [&](const boost::system::error_code &error, int number) {
    if (error) return;
    signals.async_wait(on_signal);
    if (number == SIGHUP) return reload("sighup", {});
    if (number == SIGUSR1) {
      if (audit_) audit_->reopen();
      return;
    }
    if (drain_.begun()) return control_.stop();  // a second signal ends it now
    begin_drain();
  };
  signals.async_wait(on_signal);
  ready_.enter(gateway::readiness::phase::serving);
  housekeeping();
  write_line(static_cast<int>(settings_.ready_fd), ready_line());
  observe::log("router").info("serving {} on {} worker(s); agents at {}; metrics on {}", units_.front()->server->address(),
                              units_.size(), link_addresses_.empty() ? "-" : link_addresses_.front(), metrics_page_->address());
  control_.run(report);
  observe::log("router").info("stopped");
}

void router_app::housekeeping() {
  control_.arm_in(housekeeping_timer_, 100 * ns_per_ms);
  fleet_->tick();
  if (quota_store_) quota_store_->tick();
  tell_first_request();
  const uint64_t now = now_ns();
  watch_memory(now);
  if (now >= next_second_ns_) {
    next_second_ns_ = now + ns_per_s;
    router_->sweep();
    directory_->forget_pools(now, settings_.remove_after.ns);
    forget_gone_tenants(now);
    exporter_.sweep();
    access_->sweep();
    sample_drift();
    watch_storage();
    watch_accepting();
  }
  if (now >= next_admission_sweep_ns_) {
    next_admission_sweep_ns_ = now + 5 * 60 * ns_per_s;
    admission_->sweep();
    quotas_->sweep();
  }
}

// Whoever started it with nothing but --backend is told what to do next, once there is something to do it with.
void router_app::tell_first_request() {
  if (first_request_told_ || embedded_->empty() || !settings_.config_file.empty()) return;
  const std::string line = first_request(*fleet_, settings_.edge.tls() ? "https" : "http", units_.front()->server->address());
  if (line.empty()) return;
  first_request_told_ = true;
  observe::log("router").info("try: {}", line);
}

void router_app::begin_drain() {
  ready_.enter(gateway::readiness::phase::draining);
  busy_ = std::make_unique<survey>(units_.size());
  drain_.begin(now_ns());
  observe::log("router").info("leaving: not ready from now on, new requests are refused after {} ms, running ones get {} s",
                              settings_.drain_delay.ns / ns_per_ms, settings_.drain_timeout.ns / ns_per_s);
  check_drained();
}

void router_app::check_drained() {
  using act = drain_plan::act;
  const auto busy = busy_->total();
  const act what = drain_.step(now_ns(), busy);
  for (auto &u : units_) {
    unit *one = u.get();
    if (what == act::refuse) {
      one->home.post([one] {
        one->gateway->drain();
        one->server->drain();
      });
    } else if (what == act::cut) {
      one->home.post([one] { one->gateway->shut_down(); });
    } else if (what == act::close) {
      one->home.post([one] {
        one->server->stop_accepting();
        one->server->close_idle();
        if (!one->admin_server) return;  // operators watch the drain to its end
        one->admin_server->drain();
        one->admin_server->stop_accepting();
        one->admin_server->close_idle();
      });
    }
  }
  if (what == act::cut) observe::log("router").warn("{} connection(s) were not done in time and are cut", busy.value_or(0));
  if (what == act::stop) {
    stop_units();
    return control_.stop();
  }
  if (what != act::none || busy) ask_busy();
  control_.arm_in(drain_timer_, 10 * ns_per_ms);
}

void router_app::ask_busy() {
  const uint64_t round = busy_->ask();
  for (size_t i = 0; i < units_.size(); ++i)
    units_[i]->home.post([this, round, i] { busy_->answer(i, round, units_[i]->busy()); });
}

void router_app::stop_units() {
  if (embedded_) embedded_->stop();
  for (auto &u : units_) {
    if (!u->thread.joinable()) continue;
    u->home.post([unit = u.get()] {
      if (unit->hub) unit->hub->shut_down(200);
      unit->home.post([unit] { unit->home.stop(); });
    });
    u->thread.join();
  }
}

}  // namespace hive::apps
