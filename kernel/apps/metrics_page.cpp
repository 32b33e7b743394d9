#include "apps/metrics_page.hpp"

#include "base/json_text.hpp"

namespace hive::apps {

void metrics_page::on_request(http::exchange &exchange) {
  struct answered final : http::responder {};
  const http::request_head &head = exchange.head();
  const bool fits = head.path == "/metrics" && (head.method == "GET" || head.method == "HEAD");
  const http::field type = {"Content-Type", fits ? "text/plain; version=0.0.4; charset=utf-8" : "text/plain; charset=utf-8"};
  const std::string body = fits ? exporter_.expose() : "this listener serves GET /metrics\n";
  exchange.serve(std::make_unique<answered>());
  exchange.respond({fits ? 200 : 404, {&type, 1}}, body);
}

std::string metrics_page::refusal_body(int, std::string_view what) {
  std::string out = R"({"error":)";
  append_json_string(out, what);
  return out + "}";
}

}  // namespace hive::apps
