// What the query of POST /admin/explain says (docs/explain.md). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hive::admin {

struct explain_query {
  std::optional<std::string> route, tenant, session;   // all UTF-8
  std::optional<int32_t> priority;

  // "" = all is well. The bounds are those of what keys and requests say.
  std::string read(std::string_view query);
};

}  // namespace hive::admin
