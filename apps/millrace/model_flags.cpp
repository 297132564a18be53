#include "model_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/available.h"
#include "progress_bar.h"
#include "speculation_flag.h"

namespace millrace {
namespace {

Error wrong_choice(const char* flag, const char* choices, const std::string& value) {
  return invalid_argument(fmt::format("{} must be {}, got '{}'", flag, choices, value), flag);
}

std::optional<std::string> unless_empty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

Result<int32_t> to_int32(const char* flag, int64_t value) {
  if (value >= 1 && value <= std::numeric_limits<int32_t>::max()) {
    return static_cast<int32_t>(value);
  }
  return invalid_argument(fmt::format("{} is out of range: {}", flag, value), flag);
}

Result<SchedulingPolicy> policy_of(const std::string& name) {
  if (name == "fcfs") return SchedulingPolicy::kFcfs;
  if (name == "priority") return SchedulingPolicy::kPriority;
  if (name == "fair") return SchedulingPolicy::kFair;
  return wrong_choice("--scheduling-policy", "fcfs, priority or fair", name);
}

// Of this process alone, so that nobody can find prompts whose hashes collide in its prefix cache.
Result<SipKey> random_key() {
  SipKey key;
  if (::getentropy(&key, sizeof(key)) == 0) return key;
  return Error{ErrorCode::kInternal, "the system gives no random bytes (getentropy)"};
}

// Nothing that asks for a device is passed over on a processor.
Result<void> check_cuda_flags(const ModelFlags& flags) {
  if (flags.device == "cuda") return {};
  if (flags.gpu_memory_utilization) {
    return invalid_argument(
        "--gpu-memory-utilization is of --device cuda", "--gpu-memory-utilization"
    );
  }
  if (flags.enforce_eager) {
    return invalid_argument("--enforce-eager is of --device cuda", "--enforce-eager");
  }
  return {};
}

// Each of the processes has an equal share of the machine.
Result<void> share_between_ranks(const ModelFlags& flags, LocalModelOptions& options) {
  constexpr const char* kFlag = "--tensor-parallel-size";
  const int32_t size = flags.tensor_parallel_size;
  if (size < 1 || size > ProcessGroup::kWorldSizeMax) {
    return invalid_argument(
        fmt::format("{} must be 1 to {}, got {}", kFlag, ProcessGroup::kWorldSizeMax, size), kFlag
    );
  }
  if (size > 1 && flags.device == "cuda") {
    return unsupported(
        fmt::format("{} is of --device cpu: on several devices it was never run", kFlag), kFlag
    );
  }
  options.tensor_parallel_size = size;
  options.num_threads = std::max<size_t>(1, options.num_threads / static_cast<size_t>(size));
  options.available_bytes /= size;
  return {};
}

Result<std::optional<int32_t>> optional_int32(const char* flag, std::optional<int64_t> value) {
  if (!value) return std::optional<int32_t>();
  const Result<int32_t> number = to_int32(flag, *value);
  if (!number) return number.error();
  return std::optional(*number);
}

// What a step computes, of all sequences and of one prompt.
Result<void> set_step(const ModelFlags& flags, LocalModelOptions& options) {
  const auto tokens = optional_int32("--max-num-batched-tokens", flags.max_num_batched_tokens);
  if (!tokens) return tokens.error();
  options.max_num_batched_tokens = *tokens;
  if (flags.long_prefill_token_threshold == 0) {
    options.long_prefill_token_threshold = 0;
    return {};
  }
  const auto of_prompt =
      optional_int32("--long-prefill-token-threshold", flags.long_prefill_token_threshold);
  if (!of_prompt) return of_prompt.error();
  options.long_prefill_token_threshold = *of_prompt;
  return {};
}

Result<EngineConfig> engine_config_of(const ModelFlags& flags) {
  EngineConfig config;
  config.seed = flags.seed.value_or(0);
  const Result<int32_t> num_seqs = to_int32("--max-num-seqs", flags.max_num_seqs);
  if (!num_seqs) return num_seqs.error();
  config.max_num_seqs = *num_seqs;
  const Result<SchedulingPolicy> policy = policy_of(flags.scheduling_policy);
  if (!policy) return policy.error();
  config.policy = *policy;
  config.enable_prefix_caching = flags.enable_prefix_caching;
  config.speculation = flags.speculation;
  const Result<SipKey> key = random_key();
  if (!key) return key.error();
  config.prefix_hash_key = *key;
  const auto model_len = optional_int32("--max-model-len", flags.max_model_len);
  if (!model_len) return model_len.error();
  config.max_model_len = *model_len;
  return config;
}

}  // namespace

void add_text_flags(CommandLine& line, ModelFlags& flags) {
  line.add_positional(
      "MODEL", flags.model, "a Hugging Face directory, a .gguf file, or smollm2 (the default)"
  );
  line.add("--tokenizer", flags.tokenizer, "directory or file to take the tokenizer from");
  line.add("--chat-template", flags.chat_template, "Jinja file that replaces the model's template");
}

void add_model_flags(CommandLine& line, ModelFlags& flags) {
  add_text_flags(line, flags);
  line.add("--load-format", flags.load_format, "auto, or dummy: made-up weights for any config");
  line.add("--device", flags.device, "what computes: cpu, cuda, or auto (cpu)");
  line.add(
      "--gpu-memory-utilization",
      flags.gpu_memory_utilization,
      "with --device cuda: the share of its memory to take (0.9)"
  );
  line.add_flag(
      "--enforce-eager", flags.enforce_eager, "with --device cuda: launch each kernel by itself"
  );
  line.add(
      "--generation-config", flags.generation_config, "auto: the author's sampling defaults; none"
  );
  line.add("--dtype", flags.dtype, "auto, float32, float16 or bfloat16");
  line.add(
      "--quantization",
      flags.quantization,
      "auto (codes of GGUF, AWQ, GPTQ, ... are multiplied as they are), none, or round while "
      "loading: int8, w8a8 (faster, worse) or int4; stored: refuse models without such codes"
  );
  line.add("--kv-cache-dtype", flags.kv_cache_dtype, "the same; auto is the weights' type");
  line.add("--block-size", flags.block_size, "tokens of a KV block, a multiple of 16");
  line.add_size(
      "--kv-cache-memory-bytes", flags.kv_cache_memory_bytes, "memory of the KV cache (up to 4G)"
  );
  line.add_size("--max-model-len", flags.max_model_len, "longest sequence (the model's own)");
  line.add_size(
      "--max-num-batched-tokens",
      flags.max_num_batched_tokens,
      "most tokens of one step (128 on few CPUs, 256 of bfloat16 with AMX)"
  );
  line.add("--max-num-seqs", flags.max_num_seqs, "most sequences that run at once");
  line.add_size(
      "--long-prefill-token-threshold",
      flags.long_prefill_token_threshold,
      "most tokens of one step for a single prompt, so that a long one does not hold up others "
      "(half a step); 0: as many as the step has"
  );
  line.add(
      "--scheduling-policy",
      flags.scheduling_policy,
      "who is next: fcfs (first come, first served), priority (the lowest `priority` of requests) "
      "or fair (equal shares of the tokens for each API key)"
  );
  line.add_flag(
      "--enable-prefix-caching,!--no-enable-prefix-caching",
      flags.enable_prefix_caching,
      "keep what was computed for prompts, for requests that begin alike (on)"
  );
  add_speculation_flag(line, flags.speculation);
  line.add("--threads", flags.num_threads, "compute threads; 0: one per CPU");
  const auto take_seed = [&flags](const std::string& text) -> Result<void> {
    uint64_t seed = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), seed);
    if (ec == std::errc() && end == text.data() + text.size()) {
      flags.seed = seed;
      return {};
    }
    return invalid_argument("must be an integer from 0 to 2^64 - 1, got '" + text + "'");
  };
  line.add_value("--seed", take_seed, "what requests without a seed of their own draw theirs from");
}

void add_tensor_parallel_flag(CommandLine& line, ModelFlags& flags) {
  line.add(
      "--tensor-parallel-size",
      flags.tensor_parallel_size,
      "processes that share each layer of the model, and the threads; with --device cpu"
  );
}

Result<ModelTextOptions> text_options_of(const ModelFlags& flags) {
  Result<std::string> path = locate_model(flags.model);
  if (!path) return path.error();
  return ModelTextOptions{
      .model = *std::move(path),
      .tokenizer = unless_empty(flags.tokenizer),
      .chat_template_file = unless_empty(flags.chat_template),
  };
}

Result<LocalModelOptions> model_options_of(const ModelFlags& flags) {
  LocalModelOptions options;
  Result<ModelTextOptions> text = text_options_of(flags);
  if (!text) return text.error();
  options.text = *std::move(text);

  if (flags.load_format == "dummy") {
    options.load_format = LoadFormat::kDummy;
  } else if (flags.load_format != "auto") {
    return wrong_choice("--load-format", "auto or dummy", flags.load_format);
  }
  const Result<DeviceChoice> device = device_of_flag(flags.device);
  if (!device) return device.error();
  options.device = *device;
  if (auto checked = check_cuda_flags(flags); !checked) return checked.error();
  options.gpu_memory_utilization =
      flags.gpu_memory_utilization.value_or(options.gpu_memory_utilization);
  options.enforce_eager = flags.enforce_eager;
  if (flags.generation_config == "none") {
    options.use_generation_config = false;
  } else if (flags.generation_config != "auto") {
    return wrong_choice("--generation-config", "auto or none", flags.generation_config);
  }
  const Result<std::optional<DType>> dtype = dtype_of_flag("--dtype", flags.dtype);
  if (!dtype) return dtype.error();
  options.dtype = *dtype;
  const Result<std::optional<Quantization>> quantization = quantization_of_flag(flags.quantization);
  if (!quantization) return quantization.error();
  options.quantization = *quantization;
  options.is_unquantized = flags.quantization == "none";
  options.keeps_codes = flags.quantization == "auto";
  const Result<std::optional<DType>> kv_dtype =
      dtype_of_flag("--kv-cache-dtype", flags.kv_cache_dtype);
  if (!kv_dtype) return kv_dtype.error();
  options.kv_dtype = *kv_dtype;

  options.block_size = flags.block_size;
  options.kv_cache_bytes = flags.kv_cache_memory_bytes;
  options.available_bytes = available_memory();
  const Result<size_t> num_threads = num_threads_of_flag(flags.num_threads);
  if (!num_threads) return num_threads.error();
  options.num_threads = *num_threads;
  Result<EngineConfig> engine = engine_config_of(flags);
  if (!engine) return engine.error();
  options.engine = *std::move(engine);
  if (auto done = set_step(flags, options); !done) return done.error();
  if (auto shared = share_between_ranks(flags, options); !shared) return shared.error();
  return options;
}

Result<LocalModel> load_with_progress(LocalModelOptions options) {
  ProgressBar bar("loading");
  options.on_progress = [&bar](double fraction) { bar.show(fraction); };
  return load_local_model(std::move(options));
}

Result<std::optional<DType>> dtype_of_flag(const std::string& flag, const std::string& name) {
  if (name == "auto") return std::optional<DType>();
  if (name == "half") return std::optional(DType::kFloat16);
  if (name == "float") return std::optional(DType::kFloat32);
  const std::optional<DType> dtype = dtype_from_name(name);
  if (dtype) return dtype;
  return wrong_choice(flag.c_str(), "auto, float32, float16 or bfloat16", name);
}

Result<DeviceChoice> device_of_flag(const std::string& name, const std::string& flag) {
  if (name == "auto") return DeviceChoice::kAuto;
  if (name == "cpu") return DeviceChoice::kCpu;
  if (name == "cuda") return DeviceChoice::kCuda;
  return wrong_choice(flag.c_str(), "auto, cpu or cuda", name);
}

Result<std::optional<Quantization>> quantization_of_flag(const std::string& name) {
  if (name == "auto" || name == "none") return std::optional<Quantization>();
  const std::optional<Quantization> quantization = quantization_from_name(name);
  if (quantization) return quantization;
  return wrong_choice("--quantization", "auto, none, int8, w8a8, int4 or stored", name);
}

Result<size_t> num_threads_of_flag(int32_t num_threads) {
  if (num_threads == 0) return num_available_cpus();
  if (num_threads > 0 && num_threads <= 1024) return static_cast<size_t>(num_threads);
  return wrong_choice("--threads", "0 to 1024", std::to_string(num_threads));
}

}  // namespace millrace
