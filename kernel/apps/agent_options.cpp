#include "apps/agent_options.hpp"

namespace hive::apps {

agent::agent_options agent_options_of(const config::agent_settings &s) {
  agent::agent_options o;
  o.engine = s.engine;
  o.backend_url = s.backend_url;
  o.health_url = s.health_url;
  o.models = s.models;
  o.capability = s.capability;
  o.capacity = static_cast<uint32_t>(s.capacity);
  o.version = s.version;
  o.region = s.region;
  o.organization = s.organization;
  o.machine = s.machine;
  o.tags = s.tags;
  o.gpu_model = s.gpu_model;
  o.deployment_id = s.deployment_id;
  o.replica_id = s.replica_id;
  o.hide_llm = s.hide_llm;
  o.llm_pretty_name = s.llm_pretty_name;
  o.llm_info = s.llm_info;
  o.gpu_devices_file = s.gpu_devices_file;
  o.extra_routes = s.extra_routes;
  o.http_timeout_ns = s.http_timeout.ns;
  o.max_answer_bytes = s.max_answer.bytes;
  o.stream_write_timeout_ns = s.stream_write_timeout.ns;
  o.goodbye_ns = s.shutdown_timeout.ns;
  o.hardware_interval_ns = s.hardware_sample_interval.ns;
  o.engine_interval_ns = s.engine_sample_interval.ns;
  o.signal_interval_ns = s.routing_signal_interval.ns;
  o.health_interval_ns = s.health_check_interval.ns;
  o.models_interval_ns = s.model_check_interval.ns;
  o.busy_limit_ns = s.backend_busy_limit.ns;
  o.failure_threshold = static_cast<uint32_t>(s.backend_failure_threshold);
  return o;
}

}  // namespace hive::apps
