// A model that runs in this process: its text side, its engine, and what was decided at start.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "engine/null_engine.h"
#include "engine/step_engine.h"
#include "kernels/isa.h"
#include "kernels/quantized/quantization.h"
#include "model/config.h"
#include "model/forward_work.h"
#include "model/generation_defaults.h"
#include "model/model_runner.h"
#include "parallel/process_group.h"
#include "server/model_device.h"
#include "server/model_text.h"
#include "tensor/dtype.h"

namespace millrace {

enum class LoadFormat { kAuto, kDummy };

struct LocalModelOptions {
  ModelTextOptions text;
  LoadFormat load_format = LoadFormat::kAuto;
  DeviceChoice device = DeviceChoice::kAuto;
  std::optional<DType> dtype;  // none: what the checkpoint holds (docs/decisions/0002)
  // Of the layers' matrices (CpuModelOptions); none: as they are stored.
  std::optional<Quantization> quantization = {};
  // Where none is said: matrices that are stored as int8 or int4 are refused.
  bool is_unquantized = false;
  // Where none is said and other tools have stored most of those matrices as codes that can be
  // kept: Quantization::stored(). Else they become `dtype`.
  bool keeps_codes = false;
  std::optional<DType> kv_dtype;          // none: the weights' type
  int32_t block_size = 16;                // tokens of a KV block
  std::optional<int64_t> kv_cache_bytes;  // none: 4 GiB, or less where that is enough or too much
  int64_t available_bytes = 0;            // memory that weights, scratch and KV cache may take
  double gpu_memory_utilization = 0.9;    // CudaRunnerOptions, as the next
  bool enforce_eager = false;             // no graphs
  size_t num_threads = 1;                 // of this process
  // Processes that share the model, on processors alone, with `available_bytes` and `num_threads`
  // each; of several, `group` is theirs, borrowed for the model's life.
  int32_t tensor_parallel_size = 1;
  ProcessGroup* group = nullptr;
  Isa isa = best_isa();
  bool use_generation_config = true;  // the author's sampling defaults
  // What a step computes, of all sequences and of one prompt (0: as much). None: by the device, its
  // threads and how the model runs there (engine/step_budget.h).
  std::optional<int32_t> max_num_batched_tokens;
  std::optional<int32_t> long_prefill_token_threshold;
  // Filled in from the model: eos_token_ids, and what a step computes.
  EngineConfig engine;
  std::function<void(double)> on_progress = {};  // fraction of the weights loaded, 0 to 1
};

struct LocalModel {
  ModelText text;
  ModelConfig config;
  DType dtype = DType::kFloat32;
  GenerationDefaults defaults;
  size_t num_step_weight_bytes = 0;     // that each step reads at least; 0 without weights
  std::unique_ptr<ThreadPool> threads;  // the model's; outlives the engine
  std::unique_ptr<Engine> engine;
  std::vector<std::string> start_lines;  // what was decided at start, with its arithmetic
};

// What `--dtype auto` means for a checkpoint: the type it is stored in, float16 for the quantized
// types of GGUF files, float32 where it does not say (as Hugging Face does).
DType automatic_dtype(const ModelConfig& config, const Checkpoint& checkpoint);

// What ends a sequence, each id once: the tokens that config.json and generation_config.json name,
// and the tokenizer's own, if the model has it.
std::vector<TokenId> end_tokens(
    const ModelConfig& config,
    const GenerationDefaults& defaults,
    std::optional<TokenId> of_tokenizer
);

// How the model runs: as asked, else as its matrices are stored. kInvalidArgument: they are stored
// otherwise than asked, or at all with `is_unquantized`.
Result<std::optional<Quantization>> quantization_of(
    const ModelConfig& config, std::optional<Quantization> asked, bool is_unquantized = false
);

// The longest sequence, which is at most what the model was made for. kInvalidArgument: more was
// asked for. REQUIRES: at least 1, if it was.
Result<int32_t> max_model_len_of(const ModelConfig& config, std::optional<int64_t> asked);

// Opens, checks and loads a model and starts its engine. Of a group: in rank 0.
Result<LocalModel> load_local_model(LocalModelOptions options);

// The same in the other ranks of a group, with the same options: loads a part and follows rank 0
// until its engine ends. kCancelled: it will not come to that, and who is at fault says why.
Result<void> follow_local_model(LocalModelOptions options);

// A model alone: no text, no scheduler, no engine thread. For whoever drives it step by step.
struct LocalRunner {
  std::unique_ptr<ThreadPool> threads;  // the model's; outlives it
  std::unique_ptr<ModelRunner> model;
  ModelConfig config;
  ModelDevice device = ModelDevice::kCpu;
  DType dtype = DType::kFloat32;             // of weights that are not quantized
  std::optional<Quantization> quantization;  // of the layers' matrices
  ModelBytes bytes;                          // how it lies in memory
  int32_t max_num_batched_tokens = 0;        // of a step
  std::vector<std::string> start_lines;
};

// Of `options`, only what the model itself needs is used: the limits of a step, and of `engine`
// those of sequences, by which the KV cache is sized too.
Result<LocalRunner> load_local_runner(LocalModelOptions options);

// The same as load_local_model() without its weights: an engine that makes up tokens of the model's
// vocabulary.
Result<LocalModel> load_null_model(LocalModelOptions options, NullEngineOptions engine);

}  // namespace millrace
