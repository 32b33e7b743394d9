// The component `openai` of kind engine: any server that speaks OpenAI's routes. It knows nobody in particular: a health
// page is read where there is one, and a metrics page as far as it holds the series of an engine we know.
#include "hive/sdk/openai_engine.hpp"

namespace {

namespace sdk = hive::sdk;

class openai : public sdk::openai_engine {
 public:
  static constexpr std::string_view id = "openai";
  static constexpr std::string_view version = "0.1.0";
  static constexpr std::string_view summary = "any OpenAI-compatible server: models, and health and metrics where it has them";

  openai()
      : openai_engine({
            .metrics = sdk::merged({sdk::sglang_series(), sdk::vllm_series(), sdk::llamacpp_series()}),
            .pages_optional = true,
            .load_period_ms = 2000,  // Infinity tells its queue in the list of models only
            .client_words = {"json.exception."},
            .context_words = {"too large to process", "exceeds the available context"},
        }) {}
};

}  // namespace

HIVE_PLUGIN("engine_openai", "0.1.0", "Hivenet Router", "Apache-2.0", hive::sdk::engine<openai>)
