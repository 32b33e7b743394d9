// Where requests under /admin go: parsed on a worker, answered on the control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hive::gateway {

// Whose key opened /admin.
struct admin_caller {
  std::string key_id;          // the first 12 hex digits of its hash; "" when /admin is open to everybody
  bool read_only = false;
};

struct admin_request {
  std::string method;
  std::string path;            // whole, e.g. /admin/health; not decoded
  std::string query;
  std::string authorization;   // the header as received; "" when absent, when another credential contradicts it, or when it opened nothing
  std::string if_match;        // likewise
  std::string client;
  std::string request_id;
  admin_caller caller;         // nobody until a key has opened
  std::string body;
  std::vector<std::pair<std::string, std::string>> fields;   // of POST /admin/explain: those that components of routing may see

  // Whoever asked, for the log.
  std::string asked_by() const {
    return client + (caller.key_id.empty() ? std::string() : " with admin key " + caller.key_id) + " (request " + request_id + ")";
  }
};

struct admin_answer {
  int status = 200;
  std::string content_type = "application/json; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> fields;
  std::string_view route;      // static text: the label for metrics
};

class admin_port {
 public:
  // Whom this Authorization header opens /admin to. Any thread; waits for nobody. `handle` judges again.
  virtual std::optional<admin_caller> opens(const std::string &authorization) const = 0;
  // The longest body of such a request. Any thread.
  virtual uint64_t most_body_bytes(std::string_view method, std::string_view path) const = 0;
  // Any thread. `reply` is called once, on any thread.
  virtual void handle(admin_request, std::function<void(admin_answer)> reply) = 0;

 protected:
  ~admin_port() = default;
};

}  // namespace hive::gateway
