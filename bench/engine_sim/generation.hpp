// One request whose answer is generated token by token, from its body to its last token. Owned by its exchange.
#pragma once

#include <optional>

#include "engine_sim/simulator.hpp"
#include "engine_sim/wire.hpp"

namespace hive::sim {

class generation final : public http::responder, private sequence {
 public:
  using make_wire = std::unique_ptr<wire> (*)(generation_facts);
  generation(simulator &sim, http::exchange &exchange, make_wire make) : sim_(sim), exchange_(exchange), make_(make) {}
  ~generation() override;

 private:
  void on_body(http::body_ptr) override;
  void on_body_failed(http::body_error) override;
  void on_gone(http::gone) override;
  void on_tokens(uint32_t count, bool last) override;
  void begin_stream();
  void flush();

  simulator &sim_;
  http::exchange &exchange_;
  const make_wire make_;
  std::unique_ptr<wire> wire_;
  std::optional<faults> faulty_;  // as they were when the request came
  bool stream_ = false;
  std::string out_;
  int events_ = 0;
  uint32_t told_ = 0;
};

}  // namespace hive::sim
