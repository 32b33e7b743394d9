#include "admin/reload_api.hpp"

#include <boost/json/object.hpp>
#include <string>

#include "admin/answers.hpp"

namespace hive::admin {

gateway::admin_answer answer_of(const reload_report &report) {
  boost::json::object parts;
  std::string wrong;
  for (const reloaded_part &p : report) {
    parts[p.name] = p.outcome.ok() ? "ok" : p.outcome.text();
    if (p.outcome.ok()) continue;
    wrong += wrong.empty() ? "" : "; ";
    wrong += p.name;
    wrong += ": ";
    wrong += p.outcome.text();
  }
  if (wrong.empty()) return answer_of(200, {{"status", "reloaded"}, {"parts", std::move(parts)}});
  return answer_of(422, {{"error", std::move(wrong)}, {"parts", std::move(parts)}});
}

}  // namespace hive::admin
