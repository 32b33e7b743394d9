// How many tokens a model makes of a byte of text, learned from what its engines report (docs/admission.md). The one
// estimate behind admission, routing facts and the accounting of answers whose engine tells nothing. Any thread.
//
// Memory only. ratio starts at 1 / 3.2 and becomes w * (tokens / bytes) + (1 - w) * ratio at every exact report, w = 0.2, each sample
// clamped to [0.05, 1]. What a chat template adds to every prompt is most of a short one ("hi" is a dozen tokens) and says nothing of
// text: below 256 bytes w shrinks with the length, below 64 nothing is learned. Whoever reports keeps out requests with images, estimates
// and answers of providers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/text.hpp"

namespace hive::tenancy {

// One model's ratio at one moment.
struct token_ratio {
  double tokens_per_byte = 1 / 3.2;
  bool learned = false;              // at least one report
};

// Of a prompt: ceil(bytes * ratio), at least 4 a message.
uint64_t prompt_tokens(const token_ratio &, uint64_t text_bytes, uint64_t messages);
// Of generated text so far, rounded down: what streams piece by piece must not be rounded piece by piece.
uint64_t output_tokens(const token_ratio &, uint64_t text_bytes);

class token_estimator {
 public:
  static constexpr double newest = 0.2, least = 1.0 / 20, most = 1;
  static constexpr uint64_t shortest_bytes = 64, full_bytes = 256;
  static constexpr size_t most_models = 4096;   // further ones keep the cold ratio

  token_ratio ratio(std::string_view model) const;
  // Ignored when there are no tokens or fewer bytes than the shortest.
  void learn(std::string_view model, uint64_t text_bytes, uint64_t exact_prompt_tokens);

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, token_ratio, text_hash, std::equal_to<>> models_;
};

}  // namespace hive::tenancy
