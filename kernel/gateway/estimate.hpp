// A request's token counts before and without an engine's own (docs/admission.md). One estimate a request, made when its body has
// been read: admission, routing facts and accounting use the same. Pure, any thread.
//
// Accounting of a model of which no engine has ever told a count takes a quarter of the bytes of each text, and 4 a
// text. As soon as something was learned of the model the learned ratio is nearer, and counts there too.
#pragma once

#include <cstdint>
#include <string_view>

#include "gateway/request_scan.hpp"
#include "tenancy/token_estimator.hpp"

namespace hive::gateway {

struct token_estimate {
  tenancy::token_ratio ratio;
  uint64_t prompt = 0;          // what admission and routing go by
  uint64_t counted_prompt = 0;  // what is accounted where the engine tells none

  // Of a whole answer whose engine tells no count; no text is nothing.
  uint64_t output(uint64_t text_bytes) const;
};

token_estimate estimate_of(const tenancy::token_ratio &, const request_scan &);

// Bytes of the text in a complete JSON answer of a chat, messages, completions or responses route, reasoning and the arguments of calls
// included; 0 when there is none.
uint64_t answer_text_bytes(std::string_view json);

}  // namespace hive::gateway
