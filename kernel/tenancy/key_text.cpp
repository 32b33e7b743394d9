#include "tenancy/key_text.hpp"

#include "base/text.hpp"

namespace hive::tenancy {

std::string key_text(std::span<const uint8_t, 32> random) { return "sk-hivenet-" + to_base58(random); }

std::string preview_of(std::string_view key) {
  constexpr size_t shown = 4;
  return key.size() <= shown ? std::string(key) : "sk-..." + std::string(key.substr(key.size() - shown));
}

}  // namespace hive::tenancy
