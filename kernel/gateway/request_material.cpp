#include "gateway/request_material.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "gateway/field_rules.hpp"
#include "gateway/prefix_blocks.hpp"

namespace hive::gateway {

namespace {

constexpr size_t longest_session = 256;
// Clients invent headers for their keys; a word in the name is all there is to tell them by.
constexpr std::array<std::string_view, 8> secret_words = {"auth", "api-key", "apikey", "token", "secret", "cookie", "password", "credential"};

}  // namespace

std::string_view session_of(std::span<const http::field> fields) {
  const http::field *named = http::find_field(fields, "x-session-id");
  if (named == nullptr || named->value.size() > longest_session) return {};
  return named->value;
}

bool goes_to_components(std::string_view name, std::span<const http::field> fields) {
  const std::string folded = lower(name);
  return goes_to_engine(name, fields) && std::none_of(secret_words.begin(), secret_words.end(), [&](std::string_view word) {
           return folded.find(word) != std::string::npos;
         });
}

std::span<const uint64_t> request_material::prefix_blocks() {
  prefix_blocks_of(body_, scan_, blocks_);
  return blocks_;
}

std::span<const hive_header> request_material::headers() {
  names_.clear();
  headers_.clear();
  names_.reserve(fields_.size());  // the views point into its strings
  for (const http::field &f : fields_) {
    if (!goes_to_components(f.name, fields_)) continue;
    const std::string &name = names_.emplace_back(lower(f.name));
    headers_.push_back({{name.data(), name.size()}, {f.value.data(), f.value.size()}});
  }
  return headers_;
}

}  // namespace hive::gateway
