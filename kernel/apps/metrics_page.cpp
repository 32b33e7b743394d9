#include "apps/metrics_page.hpp"

#include "gateway/error.hpp"

namespace hive::apps {

void metrics_page::on_request(http::exchange &exchange) {
  struct answered final : http::responder {};
  const http::request_head &head = exchange.head();
  http::field fields[] = {{"Content-Type", "application/json; charset=utf-8"}, {"Allow", "GET, HEAD"}};
  exchange.serve(std::make_unique<answered>());
  if (head.path != "/metrics") return exchange.respond({404, {fields, 1}}, refusal_body(404, "this listener serves GET /metrics"));
  if (head.method != "GET" && head.method != "HEAD") return exchange.respond({405, {fields, 2}}, refusal_body(405, "this path answers to GET, HEAD"));
  fields[0].value = "text/plain; version=0.0.4; charset=utf-8";
  exchange.respond({200, {fields, 1}}, exporter_.expose());
}

std::string metrics_page::refusal_body(int, std::string_view what) {
  return gateway::plain_error_body(what);
}

}  // namespace hive::apps
