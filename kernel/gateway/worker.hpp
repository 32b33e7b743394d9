// The client-facing end of one worker: gives every request of its HTTP server to whoever answers it. Lives on its loop.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/admin_port.hpp"
#include "gateway/cors.hpp"
#include "gateway/error.hpp"
#include "gateway/models_view.hpp"
#include "gateway/readiness.hpp"
#include "gateway/request_scan.hpp"
#include "gateway/routes.hpp"
#include "gateway/worker_context.hpp"
#include "http/server.hpp"
#include "tenancy/keyring.hpp"

namespace hive::gateway {

class worker final : public http::service {
 public:
  worker(const worker_context &context, const models_view &models, admin_port &admin, const readiness &ready,
         std::shared_ptr<const tenancy::keyring> keys)
      : context_(context), models_(models), admin_(admin), ready_(ready), keys_(std::move(keys)), cors_(context.options.cors_origins) {
    context_.scanner = &scanner_;
    context_.live = &live_;
    context_.models = &models_;
    extra_ = extra_rows(context.options.extra_routes);
  }

  void on_request(http::exchange &e) override { take(e, context_.options.admin_apart ? part::clients : part::all); }
  std::string refusal_body(int status, std::string_view what) override;
  std::string on_head_refused(int status, std::string_view client_address, uint64_t began_ns) override;
  std::string on_thrown(http::exchange &) override;
  // What a listener of its own for /admin is served by (options.admin_apart): /admin and /health, nothing else.
  http::service &admin_side() { return admin_side_; }
  // For requests from now on; those under way keep what they were let in with.
  void set_keys(std::shared_ptr<const tenancy::keyring> keys) { keys_ = std::move(keys); }
  // Inference is refused from now on; what runs goes on.
  void drain() { draining_ = true; }
  // The drain's time is up: what runs ends now, each with an error of its own.
  void shut_down();
  // Called while the byte budget is exceeded: gives up the answer that holds the most, if one holds much.
  void relieve();

 private:
  enum class part { all, clients, admin };
  struct admin_service final : http::service {
    explicit admin_service(worker &w) : owner(w) {}
    void on_request(http::exchange &e) override { owner.take(e, part::admin); }
    std::string refusal_body(int status, std::string_view what) override { return owner.refusal_body(status, what); }
    std::string on_head_refused(int status, std::string_view client_address, uint64_t began_ns) override {
      return owner.on_head_refused(status, client_address, began_ns);
    }
    std::string on_thrown(http::exchange &e) override { return owner.on_thrown(e); }
    worker &owner;
  };

  // What is known of a request that the worker answers itself. Borrowed for a call.
  struct asked {
    std::string_view route;                      // label
    const std::string &request_id;
    dialect speaks;
    const tenancy::client_key *who = nullptr;    // null: nobody was let in, or nobody has to be
  };
  struct own_answer {
    int status;
    std::string_view body;                       // JSON
    std::string_view code = {};                  // of an error
    std::string_view allow = {};                 // of a 405: the methods
    uint64_t retry_after_s = 0;                  // 0 = no field, but for a 503
    tenancy::denial denied = tenancy::denial::none;  // of a 401
  };

  void take(http::exchange &, part);
  void answer(http::exchange &, const asked &, const own_answer &);
  void refuse(http::exchange &, const asked &, const api_error &, std::string_view allow = {}, tenancy::denial denied = tenancy::denial::none);
  void show_model(http::exchange &, const asked &, const std::string &id);
  void answer_preflight(http::exchange &, const std::string &request_id);

  request_scanner scanner_;
  std::vector<route> extra_;
  worker_context context_;
  const models_view &models_;
  admin_port &admin_;
  const readiness &ready_;
  std::shared_ptr<const tenancy::keyring> keys_;
  cors cors_;
  admin_service admin_side_{*this};
  relay_list live_;
  bool draining_ = false;
};

}  // namespace hive::gateway
