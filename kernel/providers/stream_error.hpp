// The error that a provider reports inside a stream, as a status. Internal to providers/. Pure, any thread.
#pragma once

#include "providers/json_read.hpp"

namespace hive::providers {

inline status reported_error(const json::object &event) {
  const json::object *error = object_in(event, "error");
  std::string words = "the provider reported an error";
  if (error != nullptr) words += ": " + std::string(text_in(*error, "type")) + " " + std::string(text_in(*error, "message"));
  return fail(errc::unavailable, std::move(words));
}

}  // namespace hive::providers
