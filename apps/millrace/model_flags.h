// The flags by which every command that runs a model finds, loads and limits it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "command_line.h"
#include "model_location.h"
#include "sched/speculation.h"
#include "server/local_model.h"
#include "tensor/dtype.h"

namespace millrace {

struct ModelFlags {
  std::string model = kDefaultModel;
  std::string tokenizer;
  std::string chat_template;
  std::string load_format = "auto";
  std::string device = "auto";
  std::optional<double> gpu_memory_utilization;  // none: 0.9
  bool enforce_eager = false;
  std::string generation_config = "auto";
  std::string dtype = "auto";
  std::string quantization = "auto";
  std::string kv_cache_dtype = "auto";
  int32_t block_size = 16;
  std::optional<int64_t> kv_cache_memory_bytes;
  std::optional<int64_t> max_model_len;
  std::optional<int64_t> max_num_batched_tokens;
  std::optional<int64_t> long_prefill_token_threshold;
  int32_t max_num_seqs = 64;
  std::string scheduling_policy = "fcfs";
  bool enable_prefix_caching = true;
  std::optional<NgramSpeculation> speculation;  // none: no token is guessed
  int32_t num_threads = 0;
  int32_t tensor_parallel_size = 1;
  std::optional<uint64_t> seed;  // none: 0
};

// MODEL, --tokenizer and --chat-template: for commands that handle text alone.
void add_text_flags(CommandLine& line, ModelFlags& flags);

// Those, and all that running the model takes.
void add_model_flags(CommandLine& line, ModelFlags& flags);

// --tensor-parallel-size, of commands that call start_ranks() (ranks.h).
void add_tensor_parallel_flag(CommandLine& line, ModelFlags& flags);

Result<ModelTextOptions> text_options_of(const ModelFlags& flags);
Result<LocalModelOptions> model_options_of(const ModelFlags& flags);

// Loads it with a bar on the terminal.
Result<LocalModel> load_with_progress(LocalModelOptions options);

// nullopt for "auto"; "half" and "float" are taken as vLLM does.
Result<std::optional<DType>> dtype_of_flag(const std::string& flag, const std::string& name);

// --device: auto, cpu or cuda.
Result<DeviceChoice> device_of_flag(const std::string& name, const std::string& flag = "--device");

// nullopt for "auto" and "none".
Result<std::optional<Quantization>> quantization_of_flag(const std::string& name);

// --threads, of compute threads; 0: one per CPU.
Result<size_t> num_threads_of_flag(int32_t num_threads);

}  // namespace millrace
