#include "engine_sim/simulator.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "base/digest.hpp"
#include "base/text.hpp"
#include "engine_sim/generation.hpp"
#include "engine_sim/instant.hpp"
#include "engine_sim/json_read.hpp"

namespace hive::sim {

namespace json = boost::json;

namespace {

struct plain final : http::responder {};

struct generation_route {
  std::string_view path;
  generation::make_wire make;
};
constexpr std::array<generation_route, 4> generation_routes = {{
    {"/v1/chat/completions", chat_wire},
    {"/v1/completions", completion_wire},
    {"/v1/messages", messages_wire},
    {"/v1/responses", responses_wire},
}};

}  // namespace

void reply(http::exchange &exchange, int status, std::string_view type, std::string_view body, std::vector<http::field> more) {
  more.push_back({"Content-Type", type});
  exchange.respond({status, more}, body);
}

bool answer_faulty(http::exchange &exchange, const faults &f) {
  if (f.close_at_once) {
    exchange.abort();
    return true;
  }
  if (f.hang) return true;
  if (f.status == 0) return false;
  const std::string retry = std::to_string(f.retry_after);
  std::vector<http::field> more;
  if (f.retry_after >= 0) more.push_back({"Retry-After", retry});
  reply(exchange, f.status, "application/json",
        f.body.empty() ? R"({"error":{"message":"simulated failure","type":"InternalServerError","code":500}})" : f.body, more);
  return true;
}

// As vLLM does, in the shape of the route.
void refuse_model(http::exchange &exchange) {
  const bool anthropic = exchange.head().path.starts_with("/v1/messages");
  reply(exchange, 404, "application/json",
        anthropic ? R"({"type":"error","error":{"type":"NotFoundError","message":"The model does not exist."}})"
                  : R"({"error":{"message":"The model does not exist.","type":"NotFoundError","param":"model","code":404}})");
}

class sim_control final : public http::responder {
 public:
  sim_control(simulator &sim, http::exchange &exchange) : sim_(sim), exchange_(exchange) {}
  void on_body(http::body_ptr body) override {
    std::string error;
    sim_.set_faults(*body, error);
    if (error.empty()) reply(exchange_, 200, "application/json", "{\"ok\":true}");
    else reply(exchange_, 400, "application/json", error);
  }
  void on_body_failed(http::body_error) override { reply(exchange_, 400, "application/json", "{}"); }

 private:
  simulator &sim_;
  http::exchange &exchange_;
};

simulator::simulator(loop &l, const simulator_options &options) : loop_(l), options_(options), model_(l, options.model) {}

std::optional<faults> simulator::take_request(http::exchange &exchange, const std::string &body) {
  ++chats_;
  json::object o;
  o["path"] = json::string(exchange.head().target);
  json::object fields;
  for (const http::field &f : exchange.head().fields) fields[lower(f.name)] = json::string(f.value);
  o["headers"] = std::move(fields);
  o["body_sha256"] = sha256_hex(body);
  o["body_bytes"] = body.size();
  if (body.size() <= 8192) o["body"] = body;
  last_requests_.push_back(json::serialize(o));
  if (last_requests_.size() > 64) last_requests_.pop_front();

  if (!faults_.of_requests() || faults_.count == 0) return std::nullopt;
  if (faults_.count > 0) --faults_.count;
  return faults_;
}

bool simulator::knows(const std::string &model) const {
  return std::find(options_.models.begin(), options_.models.end(), model) != options_.models.end();
}

void simulator::set_faults(std::string_view text, std::string &error) {
  boost::system::error_code ec;
  const json::value parsed = json::parse(text.empty() ? "{}" : text, ec);
  if (ec || !parsed.is_object()) {
    error = "{\"error\":\"a JSON object is expected\"}";
    return;
  }
  const json::object &o = parsed.as_object();
  faults f;
  f.health = text_of(o, "health", "ok");
  f.status = static_cast<int>(number_of(o, "status", 0));
  f.body = text_of(o, "body");
  f.retry_after = static_cast<int>(number_of(o, "retry_after", -1));
  f.hang = number_of(o, "hang", 0) != 0;
  f.close_at_once = number_of(o, "close_at_once", 0) != 0;
  f.cut_after = static_cast<int>(number_of(o, "cut_after", -1));
  f.error_after = static_cast<int>(number_of(o, "error_after", -1));
  f.hold_after = static_cast<int>(number_of(o, "hold_after", -1));
  f.role_only = number_of(o, "role_only", 0) != 0;
  f.count = static_cast<int>(number_of(o, "count", -1));
  if (const json::value *list = o.if_contains("models"); list != nullptr && list->is_array()) {
    f.models.emplace();
    for (const json::value &m : list->as_array())
      if (m.is_string()) f.models->emplace_back(m.as_string());
  }
  faults_ = f;
  model_.options().step_ns = static_cast<uint64_t>(number_of(o, "step_ms", int64_t(options_.model.step_ns / ns_per_ms))) * ns_per_ms;
  model_.options().first_token_ns =
      static_cast<uint64_t>(number_of(o, "first_token_ms", int64_t(options_.model.first_token_ns / ns_per_ms))) * ns_per_ms;
}

void simulator::on_request(http::exchange &exchange) {
  const http::request_head &head = exchange.head();
  const auto now = [&](int status, std::string_view type, const std::string &body) {
    exchange.serve(std::make_unique<plain>());
    reply(exchange, status, type, body);
  };
  if (head.method == "POST") {
    for (const generation_route &r : generation_routes) {
      if (r.path != head.path) continue;
      exchange.serve(std::make_unique<generation>(*this, exchange, r.make));
      return exchange.read_body(64u << 20);
    }
    if (const instant_route *r = find_instant(head.path)) {
      exchange.serve(std::make_unique<instant>(*this, exchange, r->make, r->form, r->type));
      return exchange.read_body(64u << 20);
    }
  }
  if (head.path == "/health") {
    if (faults_.health == "missing") return now(404, "application/json", R"({"detail":"Not Found"})");
    if (faults_.health == "hang") return exchange.serve(std::make_unique<plain>());
    if (faults_.health == "starting")
      return now(503, "application/json", R"({"error":{"message":"Loading model","type":"unavailable_error","code":503}})");
    return now(faults_.health == "ok" ? 200 : 500, "application/json", faults_.health == "ok" ? R"({"status":"ok"})" : R"({"error":"down"})");
  }
  if (head.path == "/v1/models") return now(200, "application/json", models_page());
  if (head.path == "/metrics") return now(200, "text/plain; version=0.0.4", metrics_page());
  if (head.path == "/sim/state") return now(200, "application/json", state_page());
  if (head.path == "/sim/requests") {
    std::string out = "[";
    for (const std::string &r : last_requests_) out += (out.size() > 1 ? "," : "") + r;
    return now(200, "application/json", out + "]");
  }
  if (head.path == "/sim/faults" && head.method == "POST") {
    exchange.serve(std::make_unique<sim_control>(*this, exchange));
    return exchange.read_body(1 << 20);
  }
  now(404, "application/json", R"({"detail":"Not Found"})");
}

std::string simulator::refusal_body(int, std::string_view what) {
  return "{\"detail\":" + json::serialize(json::string(what)) + "}";
}

std::string simulator::models_page() const {
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (const std::string &m : faults_.models.value_or(options_.models)) {
    if (out.back() != '[') out += ',';
    out += "{\"id\":" + json::serialize(json::string(m)) + ",\"object\":\"model\",\"created\":1700000000,\"owned_by\":\"vllm\",\"max_model_len\":8192}";
  }
  return out + "]}";
}

std::string simulator::state_page() const {
  return json::serialize(json::object{{"running", model_.running()}, {"waiting", model_.waiting()}, {"chats", chats_},
                                      {"served", served_}, {"aborted", model_.aborted}, {"gone", gone_},
                                      {"generated", model_.generation_total}, {"prompt_tokens", model_.prompt_total},
                                      {"cached_tokens", model_.cached_total}, {"aborted_at_ns", model_.aborted_at_ns},
                                      {"bytes_written", written_}});
}

std::string simulator::metrics_page() const {
  const std::string labels = "{engine=\"0\",model_name=" + json::serialize(json::string(options_.models.front()));
  std::string out;
  const auto line = [&](const char *type, const char *name, double value) {
    out += std::string("# TYPE vllm:") + name + " " + type + "\nvllm:" + name + labels + "} " + std::to_string(value) + "\n";
  };
  line("gauge", "num_requests_running", double(model_.running()));
  line("gauge", "num_requests_waiting", double(model_.waiting()));
  line("gauge", "kv_cache_usage_perc", model_.kv_used());
  line("counter", "num_preemptions_total", 0);
  line("counter", "prompt_tokens_total", double(model_.prompt_total));
  line("counter", "generation_tokens_total", double(model_.generation_total));
  if (options_.model.prefix_caching) {
    line("counter", "prefix_cache_queries_total", double(model_.prompt_total));
    line("counter", "prefix_cache_hits_total", double(model_.cached_total));
  }
  const auto hist = [&](const char *name, const histogram &h) {
    out += std::string("# TYPE vllm:") + name + " histogram\n";
    uint64_t total = 0;
    for (size_t i = 0; i <= h.bounds.size(); ++i) {
      total += h.counts[i];
      out += std::string("vllm:") + name + "_bucket" + labels + ",le=\"" +
             (i == h.bounds.size() ? std::string("+Inf") : std::to_string(h.bounds[i])) + "\"} " + std::to_string(total) + "\n";
    }
    out += std::string("vllm:") + name + "_sum" + labels + "} " + std::to_string(h.sum) + "\n";
    out += std::string("vllm:") + name + "_count" + labels + "} " + std::to_string(total) + "\n";
  };
  hist("time_to_first_token_seconds", model_.ttft);
  hist("inter_token_latency_seconds", model_.itl);
  out += "# TYPE vllm:request_success_total counter\nvllm:request_success_total" + labels + ",finished_reason=\"length\"} " +
         std::to_string(model_.finished) + "\nvllm:request_success_total" + labels + ",finished_reason=\"abort\"} " +
         std::to_string(model_.aborted) + "\n";
  return out;
}

}  // namespace hive::sim
