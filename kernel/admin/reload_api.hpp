// POST /admin/reload: what SIGHUP reads again, for those who cannot send a signal. Control thread.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "gateway/admin_port.hpp"

namespace hive::admin {

// A part that was read again: taken whole, or as it was before and why.
struct reloaded_part {
  std::string_view name;
  status outcome;
};
using reload_report = std::vector<reloaded_part>;
// Answers once, at once or when changes of policies that are being stored are over.
using reload_fn = std::function<void(std::function<void(const reload_report &)>)>;

// 200 with all parts "ok", or 422 with what is wrong of those that stay as they were.
gateway::admin_answer answer_of(const reload_report &);

}  // namespace hive::admin
