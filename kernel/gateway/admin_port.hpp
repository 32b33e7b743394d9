// Where requests under /admin go: parsed on a worker, answered on the control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hive::gateway {

struct admin_request {
  std::string method;
  std::string path;            // whole, e.g. /admin/health; not decoded
  std::string query;
  std::string authorization;   // the header as received, "" when absent
  std::string if_match;        // likewise
  std::string client;
  std::string request_id;
  std::string body;
  std::vector<std::pair<std::string, std::string>> fields;   // of POST /admin/explain: those that components of routing may see
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
  static constexpr uint64_t max_body_bytes = 1 << 20;
  // Whether this Authorization header opens /admin. Any thread; does not block. `handle` judges again.
  virtual bool opens(const std::string &authorization) const = 0;
  // Any thread. `reply` is called once, on any thread.
  virtual void handle(admin_request, std::function<void(admin_answer)> reply) = 0;

 protected:
  ~admin_port() = default;
};

}  // namespace hive::gateway
