#include "admin/answers.hpp"

#include <boost/json/serialize.hpp>
#include <string>

#include "gateway/error.hpp"

namespace hive::admin {

namespace {

int status_of(errc code) {
  switch (code) {
    case errc::invalid: return 400;
    case errc::not_found: return 404;
    case errc::conflict:
    case errc::exhausted: return 409;
    case errc::denied: return 412;
    case errc::unavailable: return 503;
    default: return 500;
  }
}

}  // namespace

gateway::admin_answer answer_of(int status, const boost::json::object &body) {
  gateway::admin_answer a;
  a.status = status;
  a.body = boost::json::serialize(body);
  return a;
}

gateway::admin_answer refusal(int status, std::string_view words) {
  gateway::admin_answer a;
  a.status = status;
  a.body = gateway::plain_error_body(words);
  return a;
}

gateway::admin_answer refusal(const status &why) { return refusal(status_of(why.code()), why.text()); }

}  // namespace hive::admin
