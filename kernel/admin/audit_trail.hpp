// Stands between the gateway and the exporter and gives every finished request to the audit log and to the ring of recent ones
// as well. Any thread.
#pragma once

#include "gateway/recent_requests.hpp"
#include "gateway/telemetry.hpp"
#include "observe/audit_log.hpp"

namespace hive::admin {

// Not GET /health, nor GET /health/ready as long as the answer is yes (balancers ask all the time), nor OPTIONS.
bool audited(const gateway::request_record &);
observe::audit_entry audit_entry_of(const gateway::request_record &);

class audit_trail final : public gateway::telemetry {
 public:
  // `log` null: no audit.
  audit_trail(gateway::telemetry &metrics, observe::audit_log *log, gateway::recent_requests &recent)
      : metrics_(metrics), log_(log), recent_(recent) {}
  void on_started(std::string_view method, std::string_view route) override { metrics_.on_started(method, route); }
  void on_finished(const gateway::request_record &) override;
  void on_attempt_failed(std::string_view peer_id, std::string_view model, std::string_view cause) override {
    metrics_.on_attempt_failed(peer_id, model, cause);
  }

 private:
  gateway::telemetry &metrics_;
  observe::audit_log *log_;
  gateway::recent_requests &recent_;
};

}  // namespace hive::admin
