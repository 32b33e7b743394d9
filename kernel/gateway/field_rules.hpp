// Which header fields travel: from the client to the engine, and from the engine to the client. Pure, any thread.
#pragma once

#include <span>
#include <string_view>

#include "http/message.hpp"

namespace hive::gateway {

// False for credentials, for what belongs to the client's connection (hop by hop, also what its Connection field names),
// for what proxies said of it, and for what the router sets itself.
bool goes_to_engine(std::string_view name, std::span<const http::field> client_fields);

// False for what belongs to the engine's connection and for what the router answers for itself.
bool goes_to_client(std::string_view name);

}  // namespace hive::gateway
