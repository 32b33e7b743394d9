#include "tenancy/token_estimator.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>

namespace hive::tenancy {

uint64_t prompt_tokens(const token_ratio &r, uint64_t text_bytes, uint64_t messages) {
  return std::max(static_cast<uint64_t>(std::ceil(static_cast<double>(text_bytes) * r.tokens_per_byte)), 4 * messages);
}

uint64_t output_tokens(const token_ratio &r, uint64_t text_bytes) {
  return static_cast<uint64_t>(static_cast<double>(text_bytes) * r.tokens_per_byte);
}

token_ratio token_estimator::ratio(std::string_view model) const {
  const std::shared_lock lock(mutex_);
  const auto found = models_.find(model);
  return found == models_.end() ? token_ratio() : found->second;
}

void token_estimator::learn(std::string_view model, uint64_t text_bytes, uint64_t exact_prompt_tokens) {
  if (text_bytes < shortest_bytes || exact_prompt_tokens == 0) return;
  const double sample = std::clamp(static_cast<double>(exact_prompt_tokens) / static_cast<double>(text_bytes), least, most);
  const double weight = newest * static_cast<double>(std::min(text_bytes, full_bytes)) / static_cast<double>(full_bytes);
  const std::unique_lock lock(mutex_);
  auto found = models_.find(model);
  if (found == models_.end()) {
    if (models_.size() >= most_models) return;
    found = models_.emplace(std::string(model), token_ratio()).first;
  }
  token_ratio &r = found->second;
  r.tokens_per_byte = weight * sample + (1 - weight) * r.tokens_per_byte;
  r.learned = true;
}

}  // namespace hive::tenancy
