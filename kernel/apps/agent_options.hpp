// From the settings of an agent, in a process of its own or inside a router, to what the agent room takes. Pure.
#pragma once

#include "agent/options.hpp"
#include "config/agent_settings.hpp"

namespace hive::apps {

agent::agent_options agent_options_of(const config::agent_settings &);

}  // namespace hive::apps
