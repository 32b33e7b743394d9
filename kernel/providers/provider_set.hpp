// The providers that this router may use: where they are and what opens them. Immutable once made, any thread. Keys are only
// written into requests; no text made here holds one.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "http/client.hpp"
#include "providers/api.hpp"

namespace hive::providers {

struct provider_options {
  struct one {
    std::string key;   // "" = not to be used
    std::string url;   // https://HOST[:PORT][/BASE]; a trailing /v1 is forgiven
  };
  one openai{{}, "https://api.openai.com"};
  one anthropic{{}, "https://api.anthropic.com"};
  std::string ca_file; // PEM; "" = the system's authorities
};

struct provider {
  vendor kind = vendor::openai;
  std::string key;
  http::origin at;
  std::string_view engine() const { return to_string(kind); }
  std::string label() const { return "provider:" + std::string(engine()); }
};

class provider_set {
 public:
  // An error names the setting. Certificate authorities are read only if some provider has a key.
  static result<std::shared_ptr<const provider_set>> make(const provider_options &);

  const provider *find(std::string_view engine) const;   // null: unknown, or without a key
  // Whether a policy may name it; the refusal is errc::denied and says which variable its key belongs in.
  status judge(std::string_view engine) const;
  const std::shared_ptr<const http::tls_trust> &trust() const { return trust_; }
  bool empty() const { return find("openai") == nullptr && find("anthropic") == nullptr; }

 private:
  std::array<provider, 2> all_;
  std::shared_ptr<const http::tls_trust> trust_;
};

}  // namespace hive::providers
