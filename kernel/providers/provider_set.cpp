#include "providers/provider_set.hpp"

#include <algorithm>

#include "http/tls.hpp"

namespace hive::providers {

result<std::shared_ptr<const provider_set>> provider_set::make(const provider_options &options) {
  auto made = std::make_shared<provider_set>();
  const provider_options::one *given[] = {&options.openai, &options.anthropic};
  for (size_t i = 0; i < made->all_.size(); ++i) {
    provider &p = made->all_[i];
    p.kind = static_cast<vendor>(i);
    auto where = http::parse_origin(given[i]->url, http::schemes::http_and_https);
    if (!where) return where.why().at(std::string(p.engine()) + "-base-url");
    p.at = *std::move(where);
    // As the SDKs write it: OpenAI's with the version, Anthropic's without.
    constexpr std::string_view version = "/v1";
    if (p.at.base.ends_with(version)) p.at.base.resize(p.at.base.size() - version.size());
    p.key = given[i]->key;
  }
  if (made->empty()) return std::shared_ptr<const provider_set>(std::move(made));
  auto trust = http::tls_trust::make(options.ca_file);
  if (!trust) return trust.why().at("provider-ca-file");
  made->trust_ = *std::move(trust);
  return std::shared_ptr<const provider_set>(std::move(made));
}

const provider *provider_set::find(std::string_view engine) const {
  const auto it = std::find_if(all_.begin(), all_.end(), [&](const provider &p) { return p.engine() == engine; });
  return it == all_.end() || it->key.empty() ? nullptr : &*it;
}

status provider_set::judge(std::string_view engine) const {
  const auto it = std::find_if(all_.begin(), all_.end(), [&](const provider &p) { return p.engine() == engine; });
  if (it == all_.end())
    return fail(errc::denied, "unknown provider '" + std::string(engine) + "'; write openai or anthropic", "fallback_provider.engine");
  if (!it->key.empty()) return {};
  const char *variable = it->kind == vendor::openai ? "HIVENET_ROUTER_OPENAI_API_KEY" : "HIVENET_ROUTER_ANTHROPIC_API_KEY";
  return fail(errc::denied, "provider '" + std::string(engine) + "' has no key: set " + variable, "fallback_provider.engine");
}

}  // namespace hive::providers
