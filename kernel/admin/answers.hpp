// What the parts of the admin API answer with. Pure, any thread.
#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "base/status.hpp"
#include "gateway/admin_port.hpp"

namespace hive::admin {

gateway::admin_answer answer_of(int status, const boost::json::object &body);

// {"error": "words"}, the form of all refusals under /admin that no client of the inference API would know.
gateway::admin_answer refusal(int status, std::string_view words);
// With the status that the code means: invalid 400, not_found 404, conflict and exhausted 409, denied 412 (If-Match),
// unavailable 503, anything else 500.
gateway::admin_answer refusal(const status &why);

}  // namespace hive::admin
