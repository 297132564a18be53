#include "server/local_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "checkpoint/dummy.h"
#include "cuda/cuda_runner.h"
#include "engine/step_budget.h"
#include "model/coded_matrices.h"
#include "model/cpu_model.h"
#include "model/kv_budget.h"
#include "model/kv_cache.h"
#include "model/memory_plan.h"
#include "model/shard.h"
#include "model/tensor_parallel.h"
#include "model/weight_names.h"
#include "server/cuda_options.h"
#include "server/local_memory.h"
#include "server/local_part.h"

namespace millrace {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

Result<Checkpoint> open(const LocalModelOptions& options) {
  return open_checkpoint(
      options.text.model, {.with_weights = options.load_format == LoadFormat::kAuto}
  );
}

Result<std::unique_ptr<WeightSource>> weights_of(
    Checkpoint& checkpoint, const ModelConfig& config, const LocalModelOptions& options
) {
  if (options.load_format == LoadFormat::kAuto) return std::move(checkpoint.weights);
  return make_dummy_weights(expected_tensors(config), options.engine.seed);
}

// A model as it is run.
struct RunModel {
  ModelConfig config;  // of dummy weights, which are never stored ones, that of a plain model
  std::shared_ptr<const CodedMatrices> coded;  // where codes are kept of stored weights; else null
};

// Also makes options.quantization what the model is run with.
Result<RunModel> run_model_of(const Checkpoint& checkpoint, LocalModelOptions& options) {
  Result<ModelConfig> config = parse_model_config(checkpoint.config);
  if (!config) return config.error();
  RunModel model = {.config = *std::move(config), .coded = nullptr};
  if (options.load_format == LoadFormat::kDummy) {
    if (!options.quantization && !options.is_unquantized) {
      options.quantization = model.config.stored_quantization;
    }
    model.config.stored_quantization.reset();
    return model;
  }
  const Result<std::optional<Quantization>> quantization =
      quantization_of(model.config, options.quantization, options.is_unquantized);
  if (!quantization) return quantization.error();
  options.quantization = *quantization;
  const bool asks = options.quantization && options.quantization->keeps_codes();
  const bool may_keep =
      options.keeps_codes && !options.quantization && options.device != DeviceChoice::kCuda;
  if (!asks && !may_keep) return model;
  Result<CodedMatrices> coded =
      coded_matrices_of_ranks(model.config, *checkpoint.weights, options.tensor_parallel_size);
  if (!coded && asks) return coded.error();
  if (!coded) return model;
  options.quantization = Quantization::stored();
  model.coded = std::make_shared<const CodedMatrices>(*std::move(coded));
  return model;
}

// "int8", "uint4, uint6", "bfloat16".
std::string name_of_weights(const CpuModelOptions& model, const CodedMatrices* coded) {
  if (coded != nullptr) return coded->names();
  return std::string(model.quantization ? name_of(*model.quantization) : name_of(model.dtype));
}

LoadProgress progress_of(const LocalModelOptions& options) {
  return [&options](size_t num_done, size_t num_tensors) {
    if (!options.on_progress) return;
    options.on_progress(static_cast<double>(num_done) / static_cast<double>(num_tensors));
  };
}

void add_speculation_line(const EngineConfig& engine, std::vector<std::string>& lines) {
  if (const auto& speculation = engine.speculation) {
    lines.push_back(fmt::format(
        "speculation: up to {} tokens, from n-grams of {} to {} tokens that came before",
        speculation->num_speculative_tokens,
        speculation->prompt_lookup_min,
        speculation->prompt_lookup_max
    ));
  }
}

// What an engine drives, whatever it runs on.
struct LoadedRunner {
  std::unique_ptr<ModelRunner> model;
  DType dtype = DType::kFloat32;
  std::optional<Quantization> quantization;
  ModelBytes bytes;
  std::vector<std::string> start_lines;
};

// As asked, but what follows from the memory that is left.
Result<CpuModelOptions> cpu_options_of(
    const Checkpoint& checkpoint, const ModelConfig& config, const LocalModelOptions& options
) {
  const Result<int32_t> longest = max_model_len_of(config, options.engine.max_model_len);
  if (!longest) return longest.error();
  CpuModelOptions model;
  model.dtype = options.dtype.value_or(automatic_dtype(config, checkpoint));
  model.quantization = options.quantization;
  model.kv_dtype = options.kv_dtype.value_or(model.dtype);
  model.isa = options.isa;
  model.block_size = options.block_size;
  model.max_model_len = *longest;
  model.max_num_batched_tokens = options.engine.max_num_batched_tokens;
  model.max_num_logits = options.engine.max_logit_rows;
  model.group = options.group;
  return model;
}

// How many tokens a step has, where nobody said.
int32_t step_tokens_of(
    ModelDevice device,
    const Checkpoint& checkpoint,
    const ModelConfig& config,
    const LocalModelOptions& options
) {
  const int64_t num_seqs = options.engine.max_num_seqs;
  if (device == ModelDevice::kCuda) return default_device_step_tokens(num_seqs);
  const WeightFormat weights = {
      .dtype = options.dtype.value_or(automatic_dtype(config, checkpoint)),
      .quantization = options.quantization,
  };
  const auto num_ranks = static_cast<size_t>(options.tensor_parallel_size);
  return default_step_tokens(
      options.num_threads * num_ranks, num_seqs, gains_by_long_steps(options.isa, weights)
  );
}

// In `options.engine`, of all sequences and of one prompt.
void set_step(
    ModelDevice device,
    const Checkpoint& checkpoint,
    const ModelConfig& config,
    LocalModelOptions& options
) {
  if (!options.max_num_batched_tokens) {
    options.max_num_batched_tokens = step_tokens_of(device, checkpoint, config, options);
  }
  const int32_t tokens = *options.max_num_batched_tokens;
  const int32_t of_prompt =
      options.long_prefill_token_threshold.value_or(default_prompt_tokens(tokens));
  options.engine.max_num_batched_tokens = tokens;
  options.engine.long_prefill_token_threshold = of_prompt == 0 ? tokens : of_prompt;
}

// What this process has of the model.
Result<ModelConfig> part_of(const ModelConfig& config, const LocalModelOptions& options) {
  if (options.group == nullptr) return config;
  return shard_config(config, shard_of(*options.group));
}

std::unique_ptr<ModelRunner> runner_of(std::unique_ptr<CpuModel> model, ProcessGroup* group) {
  if (group == nullptr) return model;
  return std::make_unique<TensorParallelRunner>(std::move(model), *group);
}

void add_line(std::string line, std::vector<std::string>& lines) {
  if (!line.empty()) lines.push_back(std::move(line));
}

void add_group_line(const ProcessGroup* group, std::vector<std::string>& lines) {
  if (group == nullptr) return;
  lines.push_back(fmt::format(
      "tensor parallel: {} processes share the model; threads, weights and KV cache are each one's",
      group->world_size()
  ));
}

Result<LoadedRunner> load_cpu_runner(
    Checkpoint& checkpoint,
    const RunModel& run,
    const LocalModelOptions& options,
    ThreadPool& threads
) {
  const auto& [config, coded] = run;
  Result<CpuModelOptions> model = cpu_options_of(checkpoint, config, options);
  if (!model) return model.error();
  const Result<ModelConfig> part = part_of(config, options);
  if (!part) return part.error();
  const Result<MemoryPlan> memory = plan_local_memory(*part, options, *model, coded);
  if (!memory) return memory.error();
  const Result<KvBudget> budget = plan_kv_budget({
      .num_bytes = kv_cache_bytes(*memory, options),
      .bytes_per_block = memory->bytes_per_block(),
      .block_size = model->block_size,
      .max_model_len = model->max_model_len,
  });
  if (!budget) return budget.error();
  model->num_blocks = budget->num_blocks;
  model->num_hidden_slots = budget->num_blocks;  // as MemoryPlan counts them

  const Result<std::unique_ptr<WeightSource>> weights = weights_of(checkpoint, config, options);
  if (!weights) return weights.error();
  const auto load = options.group == nullptr ? CpuModel::load : load_leading_part;
  Result<std::unique_ptr<CpuModel>> loaded =
      load(config, **weights, *model, threads, progress_of(options));
  if (!loaded) return loaded.error();
  std::vector<std::string> lines = {
      fmt::format(
          "{}: {:.1f} M parameters, {} on {} threads ({}), {:.2f} GiB of weights",
          options.text.model,
          static_cast<double>(num_parameters(config)) / 1e6,
          name_of_weights(*model, coded.get()),
          threads.num_threads(),
          name_of(model->isa),
          static_cast<double>((*loaded)->num_weight_bytes()) / kGiB
      ),
      budget->text,
  };
  if (coded) add_line(coded->others(model->dtype), lines);
  add_group_line(options.group, lines);
  add_speculation_line(options.engine, lines);
  const ModelBytes bytes = {
      .step_weights = (*loaded)->num_step_weight_bytes(),
      .expert_weights = (*loaded)->num_expert_weight_bytes(),
      .kv_per_token = kv_bytes_per_token(*part, model->kv_dtype)};
  return LoadedRunner{
      .model = runner_of(*std::move(loaded), options.group),
      .dtype = model->dtype,
      .quantization = model->quantization,
      .bytes = bytes,
      .start_lines = std::move(lines)};
}

Result<LoadedRunner> load_cuda_runner(
    Checkpoint& checkpoint,
    const ModelConfig& config,
    const LocalModelOptions& options,
    ThreadPool& threads
) {
  const Result<int32_t> longest = max_model_len_of(config, options.engine.max_model_len);
  if (!longest) return longest.error();
  const Result<cuda::CudaRunnerOptions> cuda = cuda_options_of(options, *longest);
  if (!cuda) return cuda.error();
  const Result<std::unique_ptr<WeightSource>> weights = weights_of(checkpoint, config, options);
  if (!weights) return weights.error();
  Result<cuda::CudaRunner> loaded =
      cuda::load_cuda_runner(config, **weights, *cuda, threads, progress_of(options));
  if (!loaded) return loaded.error();
  // Inputs are bfloat16 there: one term.
  std::optional<Quantization> quantization = options.quantization;
  if (quantization && quantization->format == QuantizedFormat::kInt8) {
    quantization = Quantization::w8a8();
  }
  std::vector<std::string> lines = std::move(loaded->start_lines);
  lines.front() = fmt::format("{}: {}", options.text.model, lines.front());
  add_speculation_line(options.engine, lines);
  return LoadedRunner{
      .model = std::move(loaded->model),
      .dtype = DType::kBFloat16,
      .quantization = quantization,
      .bytes =
          {.step_weights = loaded->num_step_weight_bytes,
           .kv_per_token = kv_bytes_per_token(config, DType::kBFloat16)},
      .start_lines = std::move(lines)};
}

Result<LoadedRunner> load_runner(
    ModelDevice device,
    Checkpoint& checkpoint,
    const RunModel& run,
    const LocalModelOptions& options,
    ThreadPool& threads
) {
  CHECK(options.group == nullptr || device == ModelDevice::kCpu, "its flag is of --device cpu");
  return device == ModelDevice::kCuda ? load_cuda_runner(checkpoint, run.config, options, threads)
                                      : load_cpu_runner(checkpoint, run, options, threads);
}

// Ids whose text reads as prose: a word of plain letters, perhaps after a space. All ids where a
// vocabulary has too few of those to fill a list of logprobs.
std::vector<TokenId> plain_ids(const Tokenizer& tokenizer, int64_t vocab_size, int32_t num_least) {
  constexpr size_t kEnough = 4096;
  const auto is_plain = [](std::string_view text) {
    if (text.starts_with(' ')) text.remove_prefix(1);
    return text.size() >= 2 &&
           std::ranges::all_of(text, [](char c) { return c >= 'a' && c <= 'z'; });
  };
  const auto bound = static_cast<TokenId>(
      std::min<int64_t>(vocab_size, static_cast<int64_t>(tokenizer.vocab_size()))
  );
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < bound && ids.size() < kEnough; ++id) {
    if (!tokenizer.is_special(id) && is_plain(tokenizer.token_bytes(id))) ids.push_back(id);
  }
  if (ids.size() > static_cast<size_t>(num_least)) return ids;
  ids.resize(static_cast<size_t>(bound));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

}  // namespace

DType automatic_dtype(const ModelConfig& config, const Checkpoint& checkpoint) {
  if (config.dtype) return *config.dtype;
  return checkpoint.vocabulary ? DType::kFloat16 : DType::kFloat32;
}

Result<int32_t> max_model_len_of(const ModelConfig& config, std::optional<int64_t> asked) {
  const int64_t own =
      std::min<int64_t>(config.max_position_embeddings, std::numeric_limits<int32_t>::max());
  if (asked.value_or(own) <= own) return static_cast<int32_t>(asked.value_or(own));
  return invalid_argument(
      fmt::format("--max-model-len is {}; the model was made for at most {} tokens", *asked, own),
      "--max-model-len"
  );
}

std::vector<TokenId> end_tokens(
    const ModelConfig& config,
    const GenerationDefaults& defaults,
    std::optional<TokenId> of_tokenizer
) {
  std::vector<TokenId> ids = config.eos_token_ids;
  ids.insert(ids.end(), defaults.eos_token_ids.begin(), defaults.eos_token_ids.end());
  if (of_tokenizer && *of_tokenizer < config.vocab_size) ids.push_back(*of_tokenizer);
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

Result<std::optional<Quantization>> quantization_of(
    const ModelConfig& config, std::optional<Quantization> asked, bool is_unquantized
) {
  const std::optional<QuantizedFormat> stored = config.stored_quantization;
  const bool takes_stored = asked ? asked->keeps_codes() : !is_unquantized;
  if (!stored) return asked;
  if (takes_stored) return std::optional<Quantization>(stored);
  if (asked && asked->format == *stored) return asked;
  return invalid_argument(
      fmt::format(
          "the weights are stored as {}, not {}", name_of(*stored), asked ? name_of(*asked) : "none"
      ),
      "--quantization"
  );
}

Result<LocalModel> load_local_model(LocalModelOptions options) {
  const Result<ModelDevice> device = choose_device(options.device);
  if (!device) return device.error();
  Result<Checkpoint> checkpoint = open(options);
  if (!checkpoint) return checkpoint.error();
  Result<RunModel> run = run_model_of(*checkpoint, options);
  if (!run) return run.error();
  ModelConfig& config = run->config;
  Result<GenerationDefaults> defaults =
      parse_generation_defaults(checkpoint->generation_config, config.vocab_size);
  if (!defaults) return defaults.error();
  const std::optional<int64_t> dummy_vocab_size =
      options.load_format == LoadFormat::kDummy ? std::optional(config.vocab_size) : std::nullopt;
  Result<ModelText> text = load_model_text(options.text, *checkpoint, dummy_vocab_size);
  if (!text) return text.error();

  set_step(*device, *checkpoint, config, options);
  options.engine.eos_token_ids = end_tokens(config, *defaults, text->eos_token_id);
  options.engine.max_logit_rows =
      std::max(options.engine.max_logit_rows, options.engine.max_num_seqs);
  auto threads = std::make_unique<ThreadPool>(options.num_threads);
  Result<LoadedRunner> runner = load_runner(*device, *checkpoint, *run, options, *threads);
  if (!runner) return runner.error();
  Result<std::unique_ptr<StepEngine>> engine =
      StepEngine::start(std::move(runner->model), options.engine);
  if (!engine) return engine.error();
  const auto num_step_weight_bytes =
      static_cast<size_t>(weight_bytes_of_step(config, runner->bytes, 1.0));
  return LocalModel{
      .text = *std::move(text),
      .config = std::move(config),
      .dtype = runner->dtype,
      .defaults = options.use_generation_config ? *std::move(defaults) : GenerationDefaults(),
      .num_step_weight_bytes = num_step_weight_bytes,
      .threads = std::move(threads),
      .engine = *std::move(engine),
      .start_lines = std::move(runner->start_lines),
  };
}

Result<void> follow_local_model(LocalModelOptions options) {
  CHECK(options.group != nullptr, "a rank of a group");
  options.keeps_codes = false;  // rank 0 says how its part is kept
  options.quantization.reset();
  Result<Checkpoint> checkpoint = open(options);
  if (!checkpoint) return checkpoint.error();
  const Result<RunModel> run = run_model_of(*checkpoint, options);
  if (!run) return run.error();
  const ModelConfig& config = run->config;
  const Result<std::unique_ptr<WeightSource>> weights = weights_of(*checkpoint, config, options);
  if (!weights) return weights.error();
  ThreadPool threads(options.num_threads);
  return follow_shared_model(config, **weights, *options.group, threads);
}

Result<LocalRunner> load_local_runner(LocalModelOptions options) {
  const Result<ModelDevice> device = choose_device(options.device);
  if (!device) return device.error();
  Result<Checkpoint> checkpoint = open(options);
  if (!checkpoint) return checkpoint.error();
  const Result<RunModel> run = run_model_of(*checkpoint, options);
  if (!run) return run.error();
  const ModelConfig& config = run->config;
  set_step(*device, *checkpoint, config, options);
  auto threads = std::make_unique<ThreadPool>(options.num_threads);
  Result<LoadedRunner> runner = load_runner(*device, *checkpoint, *run, options, *threads);
  if (!runner) return runner.error();
  return LocalRunner{
      .threads = std::move(threads),
      .model = std::move(runner->model),
      .config = config,
      .device = *device,
      .dtype = runner->dtype,
      .quantization = runner->quantization,
      .bytes = runner->bytes,
      .max_num_batched_tokens = options.engine.max_num_batched_tokens,
      .start_lines = std::move(runner->start_lines),
  };
}

Result<LocalModel> load_null_model(LocalModelOptions options, NullEngineOptions null_engine) {
  Result<Checkpoint> checkpoint = open_checkpoint(options.text.model, {.with_weights = false});
  if (!checkpoint) return checkpoint.error();
  Result<ModelConfig> config = parse_model_config(checkpoint->config);
  if (!config) return config.error();
  Result<GenerationDefaults> defaults =
      parse_generation_defaults(checkpoint->generation_config, config->vocab_size);
  if (!defaults) return defaults.error();
  Result<ModelText> text = load_model_text(options.text, *checkpoint, config->vocab_size);
  if (!text) return text.error();
  const Result<int32_t> longest = max_model_len_of(*config, options.engine.max_model_len);
  if (!longest) return longest.error();

  null_engine.vocab_size = config->vocab_size;
  null_engine.plain_ids =
      plain_ids(text->tokenizer, config->vocab_size, options.engine.logprobs_max);
  null_engine.policy = options.engine.policy;
  null_engine.max_model_len = *longest;
  null_engine.max_num_seqs = options.engine.max_num_seqs;
  null_engine.max_num_live_seqs = options.engine.max_num_live_seqs;
  null_engine.admission = options.engine.admission;
  null_engine.n_max = options.engine.n_max;
  null_engine.logprobs_max = options.engine.logprobs_max;
  null_engine.block_size = options.block_size;
  null_engine.seed = options.engine.seed;
  null_engine.on_step_end = options.engine.on_step_end;
  const double rate = null_engine.tokens_per_second;
  Result<std::unique_ptr<NullEngine>> engine = NullEngine::start(std::move(null_engine));
  if (!engine) return engine.error();
  return LocalModel{
      .text = *std::move(text),
      .config = *std::move(config),
      .defaults = options.use_generation_config ? *std::move(defaults) : GenerationDefaults(),
      .engine = *std::move(engine),
      .start_lines = {fmt::format(
          "null engine: made-up tokens of {}, {} a second for each choice", options.text.model, rate
      )},
  };
}

}  // namespace millrace
