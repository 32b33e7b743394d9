// Cross-origin requests of browsers, for the origins an operator lists (--cors-origins); without a list there is no such
// header at all. Client routes only: /admin is never opened to pages of other origins. Stateless after construction, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "http/message.hpp"

namespace hive::gateway {

class cors {
 public:
  explicit cors(std::vector<std::string> origins);

  // Header lines for every answer to this request; "" when it is none of a listed origin.
  std::string lines_for(const http::request_head &) const;
  // A browser's question before the real request: OPTIONS with Access-Control-Request-Method, of a listed origin. It carries no
  // key and is answered without one.
  bool is_preflight(const http::request_head &) const;
  // The fields that answer it, beside those of lines_for. They borrow from the request.
  std::vector<http::field> permissions(const http::request_head &) const;

 private:
  bool allows(std::string_view origin) const;

  std::vector<std::string> origins_;
  bool any_ = false;              // "*" is listed
};

}  // namespace hive::gateway
