// Names of fields as readers take them that do not mind the case. Go's encoding/json is one (Ollama): "Model" and "MODEL" are its
// `model`, and of several the last one counts. Who decides by a field must know all its spellings. Pure, any thread.
#pragma once

#include <string>
#include <string_view>

namespace hive::gateway {

// Whether folding could change it: it holds a capital or something beyond ASCII.
inline bool may_fold(std::string_view name) {
  unsigned odd = 0;
  for (const char c : name) odd |= static_cast<unsigned>(static_cast<unsigned>(c - 'A') < 26u) | (static_cast<unsigned char>(c) & 0x80u);
  return odd != 0;
}

// As Go folds a name of ASCII letters: capitals become small, U+017F (the long s) is an s, U+212A (the sign of kelvin) a k; the rest stays.
// Empty for a name longer than any of ours could be written.
std::string folded(std::string_view name);

}  // namespace hive::gateway
