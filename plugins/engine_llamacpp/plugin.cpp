// The component `llamacpp` of kind engine: llama.cpp's llama-server. It answers 500 to much that is the client's mistake;
// only the words tell.
#include "hive/sdk/openai_engine.hpp"

namespace {

namespace sdk = hive::sdk;

class llamacpp : public sdk::openai_engine {
 public:
  static constexpr std::string_view id = "llamacpp";
  static constexpr std::string_view version = "0.2.0";
  static constexpr std::string_view summary = "llama.cpp's llama-server: health, models, metrics (with --metrics), errors";

  llamacpp()
      : openai_engine({
            .metrics = sdk::llamacpp_series(),
            .requests_per_connection = 100,  // Keep-Alive: timeout=5, max=100
            .default_port = 8080,
            .client_words = {"json.exception.", "is not supported", "does not support", "mmproj", "must not be empty",
                             "does not logits computation", "is required", "must be"},
            .context_words = {"too large to process", "exceeds the available context", "larger than the context",
                              "exceed context size"},
        }) {}
};

}  // namespace

HIVE_PLUGIN("engine_llamacpp", "0.2.0", "Hivenet Router", "Apache-2.0", hive::sdk::engine<llamacpp>)
