#include "engine_sim/simulator.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "base/digest.hpp"
#include "base/text.hpp"

namespace hive::sim {

namespace json = boost::json;

namespace {

struct plain final : http::responder {};

void reply(http::exchange &exchange, int status, std::string_view type, std::string_view body,
           std::vector<http::field> more = {}) {
  more.push_back({"Content-Type", type});
  exchange.respond({status, more}, body);
}

std::string text_of(const json::object &o, const char *key, std::string fallback = {}) {
  const json::value *v = o.if_contains(key);
  return v != nullptr && v->is_string() ? std::string(v->as_string()) : std::move(fallback);
}

int64_t number_of(const json::object &o, const char *key, int64_t fallback) {
  const json::value *v = o.if_contains(key);
  if (v == nullptr) return fallback;
  if (v->is_int64()) return v->as_int64();
  if (v->is_bool()) return v->as_bool() ? 1 : 0;
  if (v->is_double()) return static_cast<int64_t>(v->as_double());
  return fallback;
}

}  // namespace

// One chat request from its body to its last token.
class chat final : public http::responder, private sequence {
 public:
  chat(simulator &sim, http::exchange &exchange) : sim_(sim), exchange_(exchange) {}
  ~chat() override { sim_.model_.leave(*this); }

  void on_body(http::body_ptr body) override {
    note(*body);
    ++sim_.chats_;
    boost::system::error_code error;
    json::value parsed = json::parse(*body, error);
    if (error || !parsed.is_object())
      return reply(exchange_, 400, "application/json",
                   R"({"error":{"message":"invalid JSON","type":"BadRequestError","param":null,"code":400}})");
    request_ = std::move(parsed.as_object());
    stream_ = number_of(request_, "stream", 0) != 0;
    id_ = "chatcmpl-sim-" + std::to_string(sim_.chats_);
    model_name_ = text_of(request_, "model", sim_.options_.models.front());
    faulty_ = sim_.faulty();
    if (faulty_ && misbehave()) return;
    if (std::find(sim_.options_.models.begin(), sim_.options_.models.end(), model_name_) == sim_.options_.models.end())
      return reply(exchange_, 404, "application/json",
                   R"({"error":{"message":"The model does not exist.","type":"NotFoundError","param":"model","code":404}})");
    int64_t wanted = number_of(request_, "max_completion_tokens", number_of(request_, "max_tokens", sim_.options_.default_tokens));
    if (wanted <= 0)
      return reply(exchange_, 400, "application/json",
                   R"({"error":{"message":"max_tokens must be at least 1","type":"BadRequestError","param":"max_tokens","code":400}})");
    wanted_tokens = static_cast<uint32_t>(std::min<int64_t>(wanted, 1'000'000));
    prompt_tokens = body->size() / 4 + 1;
    if (stream_) {
      http::field type{"Content-Type", "text/event-stream; charset=utf-8"};
      exchange_.begin({200, {&type, 1}});
      event(R"({"role":"assistant","content":""})", "null");
    }
    sim_.model_.admit(*this);
  }

  void on_body_failed(http::body_error) override { reply(exchange_, 400, "application/json", R"({"detail":"bad body"})"); }
  void on_written(size_t n) override { sim_.written_ += n; }
  void on_gone(http::gone) override { ++sim_.gone_; }

 private:
  void note(const std::string &body) {
    json::object o;
    o["path"] = json::string(exchange_.head().target);
    json::object fields;
    for (const http::field &f : exchange_.head().fields) fields[lower(f.name)] = json::string(f.value);
    o["headers"] = std::move(fields);
    o["body_sha256"] = sha256_hex(body);
    o["body_bytes"] = body.size();
    if (body.size() <= 8192) o["body"] = body;
    sim_.last_requests_.push_back(json::serialize(o));
    if (sim_.last_requests_.size() > 64) sim_.last_requests_.pop_front();
  }

  // True when nothing else is to happen.
  bool misbehave() {
    const faults &f = sim_.faults_;
    if (f.close_at_once) {
      exchange_.abort();
      return true;
    }
    if (f.hang) return true;
    if (f.status != 0) {
      const std::string retry = std::to_string(f.retry_after);
      std::vector<http::field> more;
      if (f.retry_after >= 0) more.push_back({"Retry-After", retry});
      const std::string body = f.body.empty() ? R"({"error":{"message":"simulated failure","type":"InternalServerError","code":500}})" : f.body;
      reply(exchange_, f.status, "application/json", body, more);
      return true;
    }
    if (f.role_only && stream_) {
      http::field type{"Content-Type", "text/event-stream"};
      exchange_.begin({200, {&type, 1}});
      event(R"({"role":"assistant","content":""})", "null");
      return true;
    }
    return false;
  }

  void event(std::string_view delta, std::string_view finish) {
    out_ += "data: {\"id\":\"";
    out_ += id_;
    out_ += "\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":";
    out_ += json::serialize(json::string(model_name_));
    out_ += ",\"choices\":[{\"index\":0,\"delta\":";
    out_ += delta;
    out_ += ",\"finish_reason\":";
    out_ += finish;
    out_ += "}]}\n\n";
    exchange_.write(out_);
    out_.clear();
  }

  std::string usage() const {
    return "{\"prompt_tokens\":" + std::to_string(prompt_tokens) + ",\"completion_tokens\":" + std::to_string(wanted_tokens) +
           ",\"total_tokens\":" + std::to_string(prompt_tokens + wanted_tokens) + "}";
  }

  void on_tokens(uint32_t count, bool last) override {
    if (!stream_) {
      if (last) finish_buffered();
      return;
    }
    for (uint32_t i = 0; i < count; ++i) {
      if (faulty_ && sim_.faults_.cut_after >= 0 && events_ >= sim_.faults_.cut_after) return exchange_.abort();
      if (faulty_ && sim_.faults_.error_after >= 0 && events_ >= sim_.faults_.error_after) {
        exchange_.write("data: {\"error\":{\"message\":\"simulated error\",\"type\":\"InternalServerError\",\"code\":500}}\n\n");
        return exchange_.end();
      }
      if (faulty_ && sim_.faults_.hold_after >= 0 && events_ >= sim_.faults_.hold_after) return sim_.model_.leave(*this);
      ++events_;
      event("{\"content\":" + json::serialize(json::string(sim_.options_.word)) + "}", "null");
    }
    if (!last) return;
    event("{}", "\"length\"");
    const json::value *options = request_.if_contains("stream_options");
    if (options != nullptr && options->is_object() && number_of(options->as_object(), "include_usage", 0) != 0)
      exchange_.write("data: {\"id\":\"" + id_ + "\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":" +
                      json::serialize(json::string(model_name_)) + ",\"choices\":[],\"usage\":" + usage() + "}\n\n");
    exchange_.write("data: [DONE]\n\n");
    ++sim_.served_;
    sim_.model_.leave(*this);
    exchange_.end();
  }

  void finish_buffered() {
    std::string text;
    for (uint32_t i = 0; i < wanted_tokens; ++i) text += sim_.options_.word;
    const std::string body = "{\"id\":\"" + id_ + "\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":" +
                             json::serialize(json::string(model_name_)) +
                             ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":" +
                             json::serialize(json::string(text)) + "},\"finish_reason\":\"length\"}],\"usage\":" + usage() + "}";
    ++sim_.served_;
    sim_.model_.leave(*this);
    reply(exchange_, 200, "application/json", body);
  }

  simulator &sim_;
  http::exchange &exchange_;
  json::object request_;
  bool stream_ = false;
  bool faulty_ = false;
  std::string id_, model_name_, out_;
  int events_ = 0;
};

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

bool simulator::faulty() {
  if (faults_.count == 0) return false;
  if (faults_.count > 0) --faults_.count;
  return true;
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
  if (head.path == "/v1/chat/completions" && head.method == "POST") {
    exchange.serve(std::make_unique<chat>(*this, exchange));
    return exchange.read_body(64u << 20);
  }
  if (head.path == "/health") {
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
  for (const std::string &m : options_.models) {
    if (out.back() != '[') out += ',';
    out += "{\"id\":" + json::serialize(json::string(m)) + ",\"object\":\"model\",\"created\":1700000000,\"owned_by\":\"vllm\",\"max_model_len\":8192}";
  }
  return out + "]}";
}

std::string simulator::state_page() const {
  return json::serialize(json::object{{"running", model_.running()}, {"waiting", model_.waiting()}, {"chats", chats_},
                                      {"served", served_}, {"aborted", model_.aborted}, {"gone", gone_},
                                      {"generated", model_.generation_total}, {"bytes_written", written_}});
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
