// GET /metrics on a listener of its own. Everything belongs to the control loop.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "admin/exporter.hpp"
#include "http/server.hpp"

namespace hive::apps {

class metrics_page final : public http::service {
 public:
  metrics_page(loop &home, admin::exporter &exporter, const http::server_limits &limits) : exporter_(exporter), server_(home, *this, limits) {}
  void use_tls(std::shared_ptr<const http::tls_identity> identity) { server_.use_tls(std::move(identity)); }
  const http::server_counters &counters() const { return server_.counters(); }
  status listen(const std::string &address) { return server_.listen(address, false); }
  std::string address() const { return server_.address(); }

  void on_request(http::exchange &exchange) override;
  std::string refusal_body(int, std::string_view what) override;

 private:
  admin::exporter &exporter_;
  http::server server_;
};

}  // namespace hive::apps
