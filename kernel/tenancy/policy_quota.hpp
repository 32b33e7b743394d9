// The one rule between keys and policies (docs/policy-api.md): where input tokens a minute are
// limited, the minute must have room for the longest prompt that the policy lets in, or such a prompt could never be served.
// Pure, any thread.
#pragma once

#include "base/status.hpp"
#include "routing/policy_set.hpp"
#include "tenancy/keyring.hpp"

namespace hive::tenancy {

// For each document of mode serverless with max_input_tokens, and each key that reaches it (the document is the global one, the key
// has no list of models, or the two lists meet): input_tokens_per_minute is 0 or at least max_input_tokens.
status check_minute_quotas(const routing::policy_set &, const keyring &);

}  // namespace hive::tenancy
