// The providers that the router's settings name. Control thread.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "config/router_settings.hpp"
#include "providers/calls.hpp"

namespace hive::apps {

using known_providers = std::shared_ptr<const providers::provider_set>;

inline status make_providers(const config::router_settings &s, known_providers &out) {
  auto made = providers::provider_set::make({{s.openai_key, s.openai_url}, {s.anthropic_key, s.anthropic_url}, s.provider_ca_file});
  if (made) out = *std::move(made);
  return made.why();
}

// Of one worker; null when no provider has a key.
inline std::unique_ptr<providers::provider_calls> provider_calls_of(loop &home, const known_providers &known, providers::call_metrics &metrics) {
  return known->empty() ? nullptr : std::make_unique<providers::provider_calls>(home, known, metrics);
}

}  // namespace hive::apps
