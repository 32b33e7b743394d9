// One request that is answered as soon as its body is there: embeddings, rerank and the smaller routes, with vLLM's shapes and
// numbers that depend on the request alone. Owned by its exchange.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "engine_sim/simulator.hpp"

namespace hive::sim {

class instant final : public http::responder {
 public:
  // The answer's JSON (or, for speech, sound); the body is the request's.
  using make_answer = std::string (*)(const boost::json::object &request, const std::string &body);
  instant(simulator &sim, http::exchange &exchange, make_answer make, bool form, std::string_view type = "application/json")
      : sim_(sim), exchange_(exchange), make_(make), form_(form), type_(type) {}

 private:
  void on_body(http::body_ptr) override;
  void on_body_failed(http::body_error) override;
  void on_gone(http::gone) override;

  simulator &sim_;
  http::exchange &exchange_;
  const make_answer make_;
  const bool form_;               // multipart instead of JSON
  const std::string_view type_;
};

struct instant_route {
  std::string_view path;
  instant::make_answer make;
  bool form = false;
  std::string_view type = "application/json";
};
// Null when the path is none of them.
const instant_route *find_instant(std::string_view path);

}  // namespace hive::sim
