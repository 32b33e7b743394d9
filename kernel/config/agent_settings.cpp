#include "config/agent_settings.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "config/embedded_agents.hpp"

namespace hive::config {
namespace {

constexpr size_t max_label = 256;

}  // namespace

status is_component_id(const std::string &text) {
  const bool good = !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  return good ? status() : fail(errc::invalid, "\"" + text + "\" is not the id of a component; write one like vllm");
}

namespace {

status is_url(const std::string &text) { return text.empty() ? status() : parse_base_url(text).why(); }

status is_router(const std::string &text) {
  const auto parsed = parse_address(text);
  if (parsed && !parsed->host.empty() && parsed->port != 0) return {};
  return fail(errc::invalid, "\"" + text + "\" is not an address to connect to; write HOST:PORT, like router.example:50051");
}

}  // namespace

// Goes into headers, labels and JSON.
status is_label(const std::string &text) {
  if (text.size() > max_label) return fail(errc::invalid, "has " + std::to_string(text.size()) + " bytes; at most 256 are allowed");
  for (const char c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) return fail(errc::invalid, "holds a control character");
  return {};
}

namespace {

status is_filled_label(const std::string &text) {
  return text.empty() ? fail(errc::invalid, "must not be empty; routers refuse an agent without it") : is_label(text);
}

void add_engine(table &t, agent_settings &a, bool embedded) {
  t.section("Engine");
  t.add("engine", &a.engine, embedded ? engine_to_be_found : "vllm",
        "Id of the engine adapter: vllm, llamacpp, openai (anything OpenAI-compatible), or that of a plugin; custom, sglang, "
        "infinity and ollama are read as openai while no plugin has that id.").check(is_component_id).shown_as("ID");
  t.add(embedded ? "url" : "backend-url", &a.backend_url, embedded ? "" : "http://localhost:8888",
        "Base URL of the engine; paths are appended.").check(is_url).shown_as("URL");
  t.add("model", &a.models, "",
        "Serve only this model id; without any, every id that the engine lists. Required when it keeps no list.")
        .repeatable().check(is_filled_label).shown_as("ID");
  t.add("health-url", &a.health_url, "",
        "Full URL asked instead of the engine's own health page; 200 is healthy.").check(is_url).shown_as("URL");
  t.add("capability", &a.capability, "llm", "What the models do.").choices({"llm", "embedding", "reranker"});
  t.add("capacity", &a.capacity, "10", "Requests that the engine takes at once.").range(1, 1'000'000);
  if (!embedded)  // the router's own setting says it for those
    t.add("allow-route", &a.written.extra_routes, "",
          "Serves POST /v1/NAME, too, if a router allows it. Not needed for " + known_route_names() + ".")
        .repeatable().check(is_allowed_route).shown_as("NAME[=CAPABILITY]");
  t.add("http-timeout", &a.http_timeout, "120s",
        "Longest the engine may take: to the head of a stream and then from content to content, to the end of any other answer. Below "
        "the router's --request-timeout it leaves time to ask another agent.").range(100 * ns_per_ms, ns_per_day);
  t.add("max-answer-bytes", &a.max_answer, "64MiB",
        "Largest answer of the engine that is no event stream; a larger one is a failure. 0 = no limit.").range(0, 1ULL << 40);
  t.add("health-check-interval", &a.health_check_interval, "2s",
        "Period of the engine's health check.").range(50 * ns_per_ms, ns_per_hour);
  t.add("model-check-interval", &a.model_check_interval, "30s",
        "Period of the engine's list of models.").range(50 * ns_per_ms, ns_per_day);
  t.add("backend-busy-limit", &a.backend_busy_limit, "30s",
        "How long an engine with requests under way may leave health checks unanswered and send nothing.").range(0, ns_per_day);
  t.add("backend-failure-threshold", &a.backend_failure_threshold, "3",
        "Failed checks in a row until the engine counts as down.").range(1, 1000);
}

void add_link(table &t, agent_settings &a) {
  t.section("Link");
  t.add("router", &a.routers, "localhost:50051",
        "HOST:PORT of a router.").repeatable().alias("router-grpc").check(is_router).shown_as("HOST:PORT");
  t.add("transport", &a.transport, "zmq", "Id of the transport component.").check(is_component_id).shown_as("ID");
  t.add("identity-path", &a.identity_path, "./agent_identity.key",
        "Ed25519 key file; made with mode 0600 if missing.").shown_as("PATH").check([](const std::string &text) {
    return text.empty() ? fail(errc::invalid, "must not be empty") : status();
  });
  t.add("router-id", &a.router_ids, "",
        "Peer id of a router with --identity-path; only a router that has such a key is talked to. Without any, the router's key is the one "
        "derived from the shared secret.").repeatable().check(is_peer_id).shown_as("ID");
  add_link_secret_rows(t, a.secret_sources, "routers");
  t.add("stream-write-timeout", &a.stream_write_timeout, "60s",
        "A stream of which the router takes no byte, nor says that its client still does, for twice this long ends; 0 = off.").range(0, ns_per_day);
  t.add("drain-timeout", &a.drain_timeout, "30s", "How long running requests may take at shutdown.").range(0, ns_per_day);
  t.add("shutdown-timeout", &a.shutdown_timeout, "5s",
        "How long the farewell to the routers may take after that.").range(100 * ns_per_ms, ns_per_hour);
  t.add("ready-fd", &a.ready_fd, "",
        "File descriptor that gets the JSON line `ready`; none if not given.").range(1, 65535);
  t.add("router-p2p", &a.written.router_p2p, "",
        "Address of the old data plane.").unused("routers tell their addresses");
  t.add("p2p-listen-port", &a.written.p2p_listen_port, "",
        "Port of the old data plane.").range(0, 65535).unused("agents never listen");
}

void add_metadata(table &t, agent_settings &a, const std::string &program_version) {
  t.section("Metadata");
  t.add("version", &a.version, program_version,
        "Version told to routers; --print-version prints the program's own.").check(is_filled_label);
  t.add("region", &a.region, "UE-France", "Region told to routers.").check(is_filled_label);
  t.add("organization", &a.organization, "Unknown", "Who runs the agent.").check(is_filled_label);
  t.add("machine", &a.machine, "Unknown", "Name of the machine.").check(is_label);
  t.add("tags", &a.tags, "production", "Tags, separated by commas; may be empty.").check(is_label);
  t.add("gpu-model", &a.gpu_model, "",
        "Label of the GPU; not detected.").also_env("HIVENET_ROUTER_GPU_MODEL").check(is_label);
  t.add("deployment-id", &a.deployment_id, "", "Id of the deployment.").also_env(
        "HIVENET_ROUTER_DEPLOYMENT_ID").check(is_label);
  t.add("replica-id", &a.replica_id, "", "Id of the replica.").also_env("HIVENET_ROUTER_REPLICA_ID").check(is_label);
  t.add("hide-llm", &a.hide_llm, "", "Marks the models as hidden in /v1/models.");
  t.add("llm-pretty-name", &a.llm_pretty_name, "", "Shown in /v1/models.").check(is_label);
  t.add("llm-info", &a.llm_info, "", "Shown in /v1/models.");
}

void add_sampling(table &t, agent_settings &a) {
  t.section("Sampling and plugins");
  t.add("hardware-sample-interval", &a.hardware_sample_interval, "2s",
        "Period of the hardware sampler.").range(50 * ns_per_ms, ns_per_hour);
  t.add("engine-sample-interval", &a.engine_sample_interval, "500ms",
        "Period of the engine's metrics page.").range(50 * ns_per_ms, ns_per_hour);
  t.add("routing-signal-interval", &a.routing_signal_interval, "500ms",
        "Period of the signals to routers.").range(50 * ns_per_ms, ns_per_hour);
  t.add("gpu-devices-file", &a.gpu_devices_file, "", "File that names the GPUs of this agent.").shown_as("PATH");
}

void add_plugins(table &t, agent_settings &a) {
  t.add("plugin-dir", &a.plugins.dirs, "",
        "Folder with plugins; without any, the program's own.").repeatable().at_key("plugins.dirs").shown_as("PATH");
}

}  // namespace

std::string engine_component(const std::string &engine) {
  for (const char *known : {"custom", "sglang", "infinity", "ollama"})
    if (engine == known) return "openai";
  return engine;
}

void add_rows(table &t, agent_settings &a, const std::string &program_version) {
  add_engine(t, a, false);
  add_link(t, a);
  add_metadata(t, a, program_version);
  add_sampling(t, a);
  add_plugins(t, a);
}

void add_embedded_rows(table &t, agent_settings &a) {
  add_engine(t, a, true);
  add_metadata(t, a, {});
  add_sampling(t, a);
}

void finish(const table &t, agent_settings &a, std::vector<status> &problems, std::vector<std::string> &warnings) {
  const auto name_source = [&](const char *name, std::string &into) {
    if (const std::string &source = t.find(name)->source; !source.empty()) into = source;
  };
  name_source("jwt-secret", a.secret_sources.text_from);
  name_source("jwt-secret-previous", a.secret_sources.previous_text_from);
  if (auto read = read_link_secrets(a.secret_sources); !read) problems.push_back(read.why());
  else if (read->empty())
    problems.push_back(fail(errc::invalid, "a shared secret is required; set --jwt-secret-file or HIVENET_ROUTER_JWT_SECRET", "jwt-secret-file"));
  else a.secrets = *std::move(read);
  for (std::string &each : judge_secret_files(a.secret_sources)) warnings.push_back(std::move(each));

  if (auto url = parse_base_url(a.backend_url)) a.backend_url = *std::move(url);
  else if (a.backend_url.empty()) problems.push_back(fail(errc::invalid, "must not be empty; write one like http://localhost:8888", "backend-url"));
  if (a.routers.empty()) problems.push_back(fail(errc::invalid, "at least one router is needed; write HOST:PORT", "router"));
  for (auto each = a.routers.begin(); each != a.routers.end(); ++each)
    if (std::find(a.routers.begin(), each, *each) != each) problems.push_back(fail(errc::invalid, *each + " is given twice; remove one", "router"));

  a.extra_routes.clear();
  for (const std::string &text : a.written.extra_routes)
    if (auto route = parse_allowed_route(text)) a.extra_routes.push_back(*std::move(route));

  if (a.engine == "ollama" && a.capability == "reranker")
    problems.push_back(fail(errc::invalid, "ollama has no reranking; use llm or embedding", "capability"));
  if (a.engine == "infinity" && a.capability == "llm")
    problems.push_back(fail(errc::invalid, "infinity has no chat; use embedding or reranker", "capability"));
}

}  // namespace hive::config
