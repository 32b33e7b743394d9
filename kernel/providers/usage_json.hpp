// Usage objects of both APIs. Internal to providers/. Pure, any thread.
#pragma once

#include "providers/json_read.hpp"
#include "providers/translate.hpp"

namespace hive::providers {

token_counts counts_of_message(const json::object &usage);
token_counts counts_of_completion(const json::object &usage);
json::object completion_usage(const token_counts &);
json::object message_usage(const token_counts &);

}  // namespace hive::providers
