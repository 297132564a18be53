// `millrace plan`: what a model takes, from its configuration alone.
#include <fmt/format.h>

#include "base/available.h"
#include "checkpoint/checkpoint.h"
#include "command_line.h"
#include "commands.h"
#include "engine/step_budget.h"
#include "failure.h"
#include "kernels/isa.h"
#include "model/config.h"
#include "model/memory_plan.h"
#include "model/weight_names.h"
#include "model_flags.h"
#include "sched/scheduler_config.h"

namespace millrace {
namespace {

struct PlanFlags {
  std::string model = kDefaultModel;
  std::string dtype = "auto";
  std::string quantization = "auto";
  std::string kv_cache_dtype = "auto";
  int64_t block_size = 16;
  std::optional<int64_t> max_num_batched_tokens;
  int64_t max_num_seqs = 64;
  std::optional<int64_t> max_model_len;
  std::optional<int64_t> memory;
};

// With its weights, whose tensors say whether they stay as they are stored, where that is open and
// they are there.
Result<Checkpoint> open(const PlanFlags& flags, const std::string& path) {
  if (flags.quantization == "auto" || flags.quantization == "stored") {
    Result<Checkpoint> checkpoint = open_checkpoint(path);
    if (checkpoint || checkpoint.error().code != ErrorCode::kNotFound) return checkpoint;
  }
  return open_checkpoint(path, {.with_weights = false});
}

Result<MemoryPlanOptions> options_of(
    const PlanFlags& flags, const Checkpoint& checkpoint, const ModelConfig& config
) {
  const Result<std::optional<DType>> dtype = dtype_of_flag("--dtype", flags.dtype);
  if (!dtype) return dtype.error();
  const Result<std::optional<DType>> kv_dtype =
      dtype_of_flag("--kv-cache-dtype", flags.kv_cache_dtype);
  if (!kv_dtype) return kv_dtype.error();
  const Result<std::optional<Quantization>> quantization = quantization_of_flag(flags.quantization);
  if (!quantization) return quantization.error();
  MemoryPlanOptions options;
  const Result<std::optional<Quantization>> kept =
      quantization_of(config, *quantization, flags.quantization == "none");
  if (!kept) return kept.error();
  options.quantization = *kept;
  const bool asks = *kept && (*kept)->keeps_codes();
  const bool may_keep_codes = asks || (!*kept && flags.quantization == "auto");
  if (may_keep_codes && checkpoint.weights) {
    Result<CodedMatrices> coded = CodedMatrices::find(config, *checkpoint.weights);
    if (!coded && asks) return coded.error();
    if (coded) {
      options.quantization = Quantization::stored();
      options.coded = std::make_shared<CodedMatrices>(*std::move(coded));
    }
  }
  options.weight_dtype = dtype->value_or(automatic_dtype(config, checkpoint));
  options.kv_dtype = kv_dtype->value_or(options.weight_dtype);
  options.block_size = flags.block_size;
  options.max_num_seqs = flags.max_num_seqs;
  const Result<int32_t> max_model_len = max_model_len_of(config, flags.max_model_len);
  if (!max_model_len) return max_model_len.error();
  options.max_model_len = *max_model_len;
  options.num_threads = static_cast<int64_t>(num_available_cpus());
  options.max_num_batched_tokens = flags.max_num_batched_tokens.value_or(default_step_tokens(
      num_available_cpus(),
      flags.max_num_seqs,
      gains_by_long_steps(best_isa(), {options.weight_dtype, options.quantization})
  ));
  options.available_bytes = flags.memory.value_or(available_memory());
  return options;
}

// Refuses what an engine of these limits refuses. REQUIRES: numbers that plan_memory() lets pass.
Result<void> check_limits(const MemoryPlanOptions& options) {
  const auto num_tokens = static_cast<int32_t>(options.max_num_batched_tokens);
  const auto num_seqs = static_cast<int32_t>(options.max_num_seqs);
  return validate(SchedulerConfig{
      .max_num_batched_tokens = num_tokens,
      .long_prefill_token_threshold = num_tokens,
      .max_num_seqs = num_seqs,
      .max_logit_rows = num_seqs,
      .max_model_len = static_cast<int32_t>(options.max_model_len),
      .block_size = static_cast<int32_t>(options.block_size),
      .num_blocks = 1,
  });
}

Result<void> plan(const PlanFlags& flags) {
  const Result<std::string> path = locate_model(flags.model);
  if (!path) return path.error();
  const Result<Checkpoint> checkpoint = open(flags, *path);
  if (!checkpoint) return checkpoint.error();
  const Result<ModelConfig> config = parse_model_config(checkpoint->config);
  if (!config) return config.error();
  const Result<MemoryPlanOptions> options = options_of(flags, *checkpoint, *config);
  if (!options) return options.error();
  const Result<MemoryPlan> result = plan_memory(*config, *options);
  if (!result) return result.error();
  if (auto checked = check_limits(*options); !checked) return checked;
  fmt::print("{}", format_plan(*result));
  return {};
}

}  // namespace

int run_plan(std::vector<std::string> arguments) {
  PlanFlags flags;
  CommandLine line("plan", "Bytes of weights, KV cache and scratch, and how many sequences fit.");
  line.add_positional("MODEL", flags.model, "directory with config.json, .gguf file, or smollm2");
  line.add("--dtype", flags.dtype, "type of the weights: auto, float32, float16, bfloat16");
  line.add(
      "--quantization",
      flags.quantization,
      "of the matrices: auto, none, int8, w8a8, int4 or stored"
  );
  line.add("--kv-cache-dtype", flags.kv_cache_dtype, "the same; auto is the weights' type");
  line.add("--block-size", flags.block_size, "tokens of a KV block");
  line.add_size(
      "--max-num-batched-tokens",
      flags.max_num_batched_tokens,
      "most tokens of one step (128 on few CPUs, 256 of bfloat16 with AMX)"
  );
  line.add("--max-num-seqs", flags.max_num_seqs, "most sequences of one step");
  line.add_size("--max-model-len", flags.max_model_len, "longest sequence (the model's own)");
  line.add_size("--memory", flags.memory, "memory to plan for (what is free now)");
  line.set_footer(
      "Examples:\n"
      "  millrace plan\n"
      "  millrace plan configs/Qwen2-7B --memory 24G --max-model-len 32K"
  );
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  return report("plan", plan(flags));
}

}  // namespace millrace
