// What the client API answers to a caller that may not: the errors of authentication and of model rules. Pure, any thread.
#pragma once

#include <optional>
#include <string_view>

#include "gateway/error.hpp"
#include "tenancy/keyring.hpp"

namespace hive::gateway {

// 401. Missing, unknown, disabled and expired keys get the same words; two keys at once are the caller's mistake and told.
api_error unauthorized(tenancy::denial why);
api_error too_many_failures(uint64_t wait_s);  // of authentication, from one address

// Nothing when the key may use the model. Outside its list 403; outside the models of its quota 429, as for a limit of 0.
std::optional<api_error> model_refusal(const tenancy::client_key &, std::string_view model);

}  // namespace hive::gateway
