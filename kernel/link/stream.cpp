#include "link/stream.hpp"

#include <array>

namespace hive::link {
namespace {

constexpr std::array<std::string_view, 18> cause_names = {
    "none", "busy", "draining", "unknown_model", "overloaded", "starting", "open_timeout", "engine_unreachable", "engine_cut",
    "engine_timeout", "agent_failed", "link_lost", "protocol", "client_gone", "client_slow", "deadline", "superseded", "shutdown"};
static_assert(cause_names.size() == static_cast<size_t>(cause::shutdown) + 1);

}  // namespace

std::string_view to_string(cause c) {
  const auto i = static_cast<size_t>(c);
  return i < cause_names.size() ? cause_names[i] : "agent_failed";
}

cause cause_from(uint32_t wire) {
  return wire > 0 && wire < cause_names.size() ? static_cast<cause>(wire) : cause::agent_failed;
}

}  // namespace hive::link
