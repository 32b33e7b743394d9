#include "admin/audit_trail.hpp"

#include "base/clock.hpp"

namespace hive::admin {

bool audited(const gateway::request_record &r) {
  const bool probe = r.route == "/health" || (r.route == "/health/ready" && r.status == 200);
  return !probe && r.method != "OPTIONS";
}

observe::audit_entry audit_entry_of(const gateway::request_record &r) {
  observe::audit_entry e;
  e.request_id = r.request_id;
  e.tenant_id = r.tenant;
  e.key_id = r.key_id;
  e.model = r.model;
  e.status_code = r.status;
  e.latency_ms = r.duration_ns / ns_per_ms;
  e.input_tokens = r.usage.prompt_tokens;
  e.output_tokens = r.usage.output_tokens;
  e.agent_id = r.agent;
  e.error_code = r.error_code;
  e.source_ip = r.client;
  e.started_unix_ms = r.started_unix_ms;
  e.ended = gateway::to_string(r.how);
  e.estimated = r.estimated;
  e.method = r.method;
  e.route = r.route;
  e.step = r.step;
  e.attempts = r.attempts;
  e.queue_ms = r.queue_ns / ns_per_ms;
  e.stream = r.streaming;
  e.input_estimate = r.estimated_prompt_tokens;
  e.output_limit = r.declared_output_tokens;
  e.alias = r.alias;
  e.denied = to_string(r.denied);
  return e;
}

void audit_trail::on_finished(const gateway::request_record &r) {
  metrics_.on_finished(r);
  recent_.add(r);
  if (log_ != nullptr && audited(r)) log_->write(audit_entry_of(r));
}

}  // namespace hive::admin
