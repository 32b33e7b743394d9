// For tests and fuzzing: the client side of one worker in process, from a socket over the HTTP server, keys, routes, routing and a
// relay to an agent at the other end of a link, on one loop and without a network.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/digest.hpp"
#include "base/text.hpp"
#include "fleet/registry_bed.hpp"
#include "gateway/auth_throttle.hpp"
#include "gateway/worker.hpp"
#include "http/connection.hpp"
#include "link/link_bench_test.hpp"
#include "routing/session_bed.hpp"
#include "tenancy/credential.hpp"

namespace hive::gateway::testing {

inline constexpr const char *client_secret = "sk-edge-key-of-a-client", *admin_secret = "edge-admin-key";
inline constexpr const char *own_exception = "the admin port broke";

// What it answers is asked for by a word in the body: "engine-fails", "engine-refuses", "engine-cuts", "engine-hangs", "engine-is-lost",
// "engine-injects" (fields whose names are none), "engine-takes-it" (202), "engine-has-nothing" (204); else it serves.
class edge_engine final : public link::agent_link_handler {
 public:
  int live = 0, opens = 0;
  bool saw_credential = false;
  std::string last_body;
  // For all requests, whatever their words.
  bool hangs = false;                      // it takes them and answers nothing
  bool holds_open = false;                 // a stream goes no further than its first content
  std::optional<link::usage> told = link::usage{1, 1, 0, true};   // none: it counts nothing
  bool in_characters = false;              // it says that it counts those

  std::unique_ptr<link::agent_stream_events> on_open(const link::incoming_request &r, link::agent_stream &s) override {
    ++opens;
    for (const http::field &f : r.fields)
      saw_credential = saw_credential || iequals(f.name, "authorization") || iequals(f.name, "x-api-key") || iequals(f.name, "cookie");
    return std::make_unique<request>(*this, s, r.streaming);
  }
  std::string metadata() override { return fleet::metadata(); }
  void on_welcomed() override {}
  void on_lost(std::string_view) override {}
  void on_kicked(std::string_view, std::string_view, bool) override {}
  void on_drain_requested(uint64_t) override {}
  link::pong_info load() override {
    const auto n = static_cast<uint32_t>(live);
    return {.in_flight_total = n, .in_flight_yours = n, .capacity = 100};
  }

 private:
  struct request final : link::agent_stream_events {
    request(edge_engine &e, link::agent_stream &s, bool stream) : owner(e), to(s), streaming(stream) { ++owner.live; }
    ~request() override { --owner.live; }
    void on_body(std::string_view part, bool last) override {
      body += part;
      to.body_consumed(part.size());
      if (!last) return;
      owner.last_body = body;
      answer();
    }
    void on_writable() override {}
    void on_cancelled(link::cause) override {}
    bool asked_to(const char *what) const { return body.find(std::string("engine-") + what) != std::string::npos; }
    void head(int status, bool events) {
      std::vector<http::field> fields = {{"content-type", events ? "text/event-stream" : "application/json"}};
      if (status == 400) fields.push_back({":class", "client"});  // the verdict of an agent's adapter: the client's mistake
      if (owner.in_characters) fields.push_back({":usage", "characters"});
      to.head({status, fields}, events);
    }
    void answer() {
      if (owner.hangs || asked_to("hangs")) return to.accept();
      if (asked_to("is-busy")) return to.refuse(link::cause::busy, "full", 1000);
      if (asked_to("is-lost")) return to.reset(link::cause::engine_unreachable, "refused", false);
      if (asked_to("fails") || asked_to("refuses")) {
        head(asked_to("fails") ? 500 : 400, false);
        to.data(R"({"error":{"message":"words of the engine","code":1}})");
        return to.end({});
      }
      if (asked_to("injects")) {
        const http::field odd[] = {{"x-a: 1\r\nset-cookie: s=1\r\nx-b", "1"}, {"set-cookie ", "s=2"}, {"x-c", "3\r\nset-cookie: s=3"}};
        to.head({200, odd}, false);
        to.data(R"({"choices":[]})");
        return to.end({1, 1, 0, true});
      }
      if (asked_to("takes-it") || asked_to("has-nothing")) {
        head(asked_to("takes-it") ? 202 : 204, false);
        if (asked_to("takes-it")) to.data(R"({"job":1})");
        return to.end({});
      }
      head(200, streaming);
      if (streaming) to.data("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n");
      else to.data(R"({"choices":[{"message":{"content":"x"}}],)");
      if (streaming && owner.holds_open) return;
      if (asked_to("cuts")) return to.reset(link::cause::engine_cut, "crashed", true);
      const link::usage counts = owner.told.value_or(link::usage{});
      if (streaming) to.data("data: [DONE]\n\n");
      else if (!counts.known) to.data(R"("usage":null})");
      else
        to.data("\"usage\":{\"prompt_tokens\":" + std::to_string(counts.prompt_tokens) +
                ",\"completion_tokens\":" + std::to_string(counts.output_tokens) + "}}");
      to.end(counts);
    }
    edge_engine &owner;
    link::agent_stream &to;
    std::string body;
    const bool streaming;
  };
};

// A key opens it; `broken` breaks whoever asks whether it does, `silent` answers nobody.
class edge_admin final : public admin_port {
 public:
  std::optional<admin_caller> opens(const std::string &authorization) const override {
    if (broken) throw std::runtime_error(own_exception);
    return tenancy::key_in(authorization) == admin_secret ? std::optional(admin_caller{}) : std::nullopt;
  }
  uint64_t most_body_bytes(std::string_view, std::string_view) const override { return 1 << 20; }
  void handle(admin_request r, std::function<void(admin_answer)> reply) override {
    if (silent) return;
    const bool open = tenancy::key_in(r.authorization) == admin_secret;
    changes += open && r.method != "GET" ? 1 : 0;
    reply({open ? 200 : 401, "application/json; charset=utf-8", open ? "{\"bytes\":" + std::to_string(r.body.size()) + "}" : "{\"error\":\"unauthorized\"}",
           {}, "/admin/edge"});
  }
  bool broken = false, silent = false;
  int changes = 0;
};

class edge_records final : public telemetry {
 public:
  struct one {
    int status;
    ended how;
    std::string method, route, client, tenant, model, request_id;
    bool inference;
    tenancy::denial denied;
    std::string refused_by;
    link::usage usage;
    bool estimated;
  };
  void on_started(std::string_view, std::string_view) override { ++started; }
  void on_finished(const request_record &r) override {
    all.push_back({r.status, r.how, std::string(r.method), std::string(r.route), std::string(r.client), std::string(r.tenant),
                   std::string(r.model), std::string(r.request_id), r.inference, r.denied, std::string(r.refused_by), r.usage, r.estimated});
  }
  void on_attempt_failed(std::string_view, std::string_view, std::string_view) override {
    if (broken) throw std::runtime_error(own_exception);
  }
  bool broken = false;
  size_t started = 0;
  std::vector<one> all;
};

class edge_bed {
 public:
  // `told`: who hears of attempts; null: `outcomes`.
  explicit edge_bed(routing::outcome_recorder *told = nullptr) : router(source, fleet.columns, told != nullptr ? *told : outcomes, {}) {
    core.limits.max_header_bytes = 4096;
    options.max_body_bytes = 4096;
    options.cors_origins = {"https://page.example"};
    core.on_closed = [](http::server_core &) {};
    context.throttle = &*throttle;
    context.quotas = &quotas;
    start_agent();
    open_gateway(key());
    (void)router.set_policies(routing::parse_policy(routing::testing::plain, source)->document);
    const auto pool = fleet.make_pool("m");
    agent = &fleet.add(pool, id.peer_id, 100);
    (void)router.add_pool(pool);
    ready.enter(readiness::phase::serving);
    settle();
  }
  ~edge_bed() {
    close_all();
    dialler.reset();
    settle();
    hub.reset();
  }

  // Of client_secret.
  static tenancy::client_key key() {
    tenancy::client_key k;
    k.hash = sha256(client_secret);
    k.tenant = "edge";
    return k;
  }
  // With what the context holds now, for one key; no connection may be open.
  void open_gateway(const tenancy::client_key &only) {
    gateway.emplace(context, models, admin, ready, tenancy::keyring::of({only}));
    core_handler = &*gateway;
  }

  // A client's end of a new connection.
  int connect(const char *address = "192.0.2.1") {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) throw std::runtime_error("no socket pair");
    http::loop_socket socket(home.io().get_executor());
    socket.assign(boost::asio::ip::tcp::v4(), pair[0]);
    (new http::connection(core, std::move(socket), address))->start();
    return pair[1];
  }
  // Until nothing is ready any more, timers aside; how much ran.
  size_t settle() {
    size_t ran = 0;
    for (size_t n = 1; n > 0; ran += n) {
      try {
        n = home.io().poll_one();
      } catch (const std::runtime_error &e) {
        if (std::string_view(e.what()) != own_exception) throw;
      }
    }
    return ran;
  }
  // A new connection on which all of it was sent, and taken as far as it can be.
  int send(std::string_view wire) {
    const int fd = connect();
    (void)!::send(fd, wire.data(), wire.size(), MSG_NOSIGNAL);
    settle();
    return fd;
  }
  static std::string received(int fd) {
    std::string got;
    char bytes[4096];
    for (ssize_t n; (n = ::recv(fd, bytes, sizeof bytes, 0)) > 0;) got.append(bytes, static_cast<size_t>(n));
    return got;
  }
  void leave(int fd) {
    ::close(fd);
    settle();
  }
  // Sends it all, and what came back until then.
  std::string ask(std::string_view wire) {
    const int fd = send(wire);
    std::string got = received(fd);
    leave(fd);
    return got;
  }
  void close_all() {
    while (!core.connections.empty()) http::connection::from(*core.connections.next).shut(http::gone::shutdown);
    settle();
  }
  bool at_rest() const {
    return forwards.in_use() == 0 && forwards.waiting() == 0 && stages.reading_body == 0 && stages.selecting == 0 && stages.forwarding == 0 &&
           stages.streaming == 0 && stages.leases == 0 && agent->slots.load().first == 0 && behind.live == 0 && core.counters.open == 0 && core.busy == 0;
  }
  // The table of guesses is large. A guess that failed is a record of a key that opened nothing, or of a client that did not wait.
  void forget() {
    const bool guessed = std::any_of(records.all.begin(), records.all.end(), [](const edge_records::one &r) {
      return r.status == 499 || (r.denied != tenancy::denial::none && r.denied != tenancy::denial::no_key);
    });
    records.all.clear();
    records.started = 0;
    if (guessed) throttle.emplace(5);
  }

 private:
  // The service is made after the core that names it.
  struct late_service final : http::service {
    explicit late_service(http::service *&s) : to(s) {}
    void on_request(http::exchange &x) override { to->on_request(x); }
    std::string refusal_body(int status, std::string_view what) override { return to->refusal_body(status, what); }
    std::string on_head_refused(int status, std::string_view address, uint64_t began) override { return to->on_head_refused(status, address, began); }
    std::string on_thrown(http::exchange &x) override { return to->on_thrown(x); }
    http::service *&to;
  };
  void start_agent() {
    link::hub_options h;
    h.secrets = {link::testing::secret_a};
    h.router_boot_id = 77;
    hub.emplace(home, hub_end->ref(), directory, h);
    hub_end->request_pump = [this] { hub->request_pump(); };
    context.hub = &*hub;
    if (!hub->start().ok()) throw std::runtime_error("the hub does not start");
    link::agent_link_options a;
    a.secrets = h.secrets;
    a.router = *hub->listen("127.0.0.1:0");
    hub->set_endpoints({a.router});
    dialler.emplace(home, agent_end->ref(), id, behind, a);
    agent_end->request_pump = [this] { if (dialler) dialler->request_pump(); };
    dialler->start();
    const uint64_t limit = now_ns() + 20 * ns_per_s;
    while (!dialler->welcomed() && now_ns() < limit) home.io().run_one_for(std::chrono::milliseconds(2));
    if (!dialler->welcomed()) throw std::runtime_error("the agent was not welcomed");
  }

 public:
  loop home;
  link::testing::fake_network net;
  std::unique_ptr<link::testing::fake_end> hub_end = std::make_unique<link::testing::fake_end>(net), agent_end = std::make_unique<link::testing::fake_end>(net);
  link::testing::owner_directory directory;
  const link::identity id = link::identity_from_seed(link::testing::seed_of(1));
  edge_engine behind;
  std::optional<link::router_hub> hub;
  std::optional<link::agent_router_link> dialler;

  routing::testing::test_source source;
  routing::testing::test_fleet fleet;
  routing::testing::recorder outcomes;
  routing::router router;
  fleet::agent *agent = nullptr;
  manual_clock clock;
  fleet::hubs no_links;
  fleet::registry registry{{}, clock, no_links, nullptr, nullptr, nullptr};
  models_view models{registry};
  readiness ready;

  edge_records records;
  edge_admin admin;
  stage_gauges stages;
  gateway_options options;
  trusted_proxies proxies;
  forward_line forwards{50, 100};
  std::optional<auth_throttle> throttle{5};
  tenancy::quota_book quotas{{}, clock};
  worker_context context{home, nullptr, router, forwards, records, stages, options, proxies};
  std::optional<worker> gateway;

  http::service *core_handler = nullptr;
  late_service service{core_handler};
  http::server_core core{home, service, {}};
};

}  // namespace hive::gateway::testing
