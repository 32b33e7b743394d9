// The component `vllm` of kind engine: vLLM's pages, 0.6 to 0.33, and its errors.
#include "hive/sdk/openai_engine.hpp"

namespace {

namespace sdk = hive::sdk;

class vllm : public sdk::openai_engine {
 public:
  static constexpr std::string_view id = "vllm";
  static constexpr std::string_view version = "0.2.0";
  static constexpr std::string_view summary = "vLLM's OpenAI server: health, models, metrics, errors";

  vllm() : openai_engine({.metrics = sdk::vllm_series(), .default_port = 8000}) {}
};

}  // namespace

HIVE_PLUGIN("engine_vllm", "0.2.0", "Hivenet Router", "Apache-2.0", hive::sdk::engine<vllm>)
