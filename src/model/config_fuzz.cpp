// Any bytes as config.json: a configuration that is accepted can be planned and listed.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "checkpoint/quantized/quantization_config.h"
#include "model/config.h"
#include "model/generation_defaults.h"
#include "model/memory_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<json::value> value = parse_json(text);
  if (!value || !value->is_object()) return 0;
  const Result<ModelConfig> config = parse_model_config(value->get_object());
  (void)read_quantization_config(value->get_object());
  (void)parse_generation_defaults(value->get_object(), 1000);
  // Long lists of tensors are only slow.
  if (!config || config->num_layers > 4 || (config->moe && config->moe->num_experts > 64)) return 0;
  const Result<MemoryPlan> plan = plan_memory(*config, {.available_bytes = int64_t{1} << 40});
  CHECK(!plan || plan->weights.total() > 0, "a model without weights");
  return 0;
}
