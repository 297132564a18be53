#include "model/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"
#include "base/math.h"
#include "kernels/quantized/weight_matrix.h"
#include "model/weight_names.h"
#include "model/workspace.h"

namespace millrace {
namespace {

constexpr int64_t kPanelRows = 16;
constexpr int64_t kFloatBytes = 4;
// With parse_model_config's limit of 2^50 parameters these bounds keep every sum below 2^63.
constexpr int64_t kBlockSizeMax = 1 << 16;
constexpr int64_t kBatchedTokensMax = 1 << 22;
constexpr int64_t kSeqsMax = 1 << 20;
constexpr int64_t kModelLenMax = 1 << 26;
constexpr int64_t kThreadsMax = 1 << 12;

Result<void> check_option(std::string_view name, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return {};
  return invalid_argument(
      fmt::format("{} is {}; it must be {} to {}", name, value, min, max), std::string(name)
  );
}

Result<void> check_options(const MemoryPlanOptions& options) {
  const Result<void> checks[] = {
      check_option("block_size", options.block_size, 1, kBlockSizeMax),
      check_option("max_num_batched_tokens", options.max_num_batched_tokens, 1, kBatchedTokensMax),
      check_option("max_num_seqs", options.max_num_seqs, 1, kSeqsMax),
      check_option("max_model_len", options.max_model_len, 0, kModelLenMax),
      check_option("num_threads", options.num_threads, 1, kThreadsMax),
      check_option("available_bytes", options.available_bytes, 0, int64_t{1} << 60),
  };
  for (const Result<void>& check : checks) {
    if (!check) return check.error();
  }
  if (options.block_size % kPanelRows != 0) {
    return invalid_argument(
        fmt::format("block_size is {}; it must be a multiple of 16", options.block_size),
        "block_size"
    );
  }
  return {};
}

// A tensor as it is kept: the file's tensor, or what takes its place.
struct StoredTensor {
  int64_t num_rows = 0;
  int64_t num_columns = 0;
  bool is_matrix = false;
  bool is_bias = false;
};

// q, k and v are kept as one, here in the place of q, and so are a router and the gate of a shared
// expert.
StoredTensor stored_tensor(const TensorInfo& info, const ModelConfig& config) {
  StoredTensor stored{
      .num_rows = info.shape.size() < 2 ? info.row_length() : info.num_rows(),
      .num_columns = info.shape.size() < 2 ? 1 : info.row_length(),
      .is_matrix = info.shape.size() >= 2,
      .is_bias = info.name.ends_with(".bias"),
  };
  const auto is_part = [&info](std::string_view part) {
    return info.name.find(part) != std::string::npos;
  };
  if (is_part(".q_proj.")) stored.num_rows = config.q_size() + 2 * config.kv_size();
  if (is_part(".k_proj.") || is_part(".v_proj.")) stored.num_rows = 0;
  const bool has_shared = config.moe && config.moe->shared_expert_intermediate_size > 0;
  if (is_part(".mlp.gate.") && has_shared) ++stored.num_rows;
  if (is_part(".shared_expert_gate.")) stored.num_rows = 0;
  return stored;
}

// A matrix of a model that parse_model_config() takes has a size that can be said.
int64_t stored_bytes(const StoredTensor& tensor, MatrixFormat format) {
  const int64_t padded = round_up(tensor.num_rows, kPanelRows);
  if (!tensor.is_matrix) return (tensor.is_bias ? padded : tensor.num_rows) * kFloatBytes;
  if (tensor.num_rows == 0) return 0;
  const std::optional<size_t> bytes = WeightMatrix::num_bytes(
      format, static_cast<size_t>(tensor.num_rows), static_cast<size_t>(tensor.num_columns)
  );
  CHECK(bytes.has_value(), "the configuration's limits keep matrices below 2^62 bytes");
  return static_cast<int64_t>(*bytes);
}

MatrixFormat format_of_head(const WeightFormat& format, const CodedMatrices* coded) {
  return coded != nullptr ? coded->format_of_head() : format.of_head();
}

MatrixFormat format_of(
    const WeightFormat& format, const CodedMatrices* coded, const ExpectedTensor& tensor
) {
  switch (tensor.role) {
    case TensorRole::kEmbedding:
      if (coded != nullptr && coded->format_of_embedding()) return *coded->format_of_embedding();
      [[fallthrough]];
    case TensorRole::kRouter:
    case TensorRole::kNorm:
      return format.of_embedding();
    case TensorRole::kLmHead:
      return format_of_head(format, coded);
    case TensorRole::kAttention:
    case TensorRole::kMlp:
    case TensorRole::kExperts:
      break;
  }
  const bool is_matrix = tensor.info.shape.size() == 2;
  if (coded != nullptr && is_matrix) return coded->format_of(tensor.info.name, format.dtype);
  return format.of_layers();
}

int64_t& component(WeightBytes& bytes, TensorRole role) {
  switch (role) {
    case TensorRole::kEmbedding:
      return bytes.embedding;
    case TensorRole::kAttention:
      return bytes.attention;
    case TensorRole::kMlp:
      return bytes.mlp;
    case TensorRole::kExperts:
      return bytes.experts;
    case TensorRole::kRouter:
      return bytes.router;
    case TensorRole::kNorm:
      return bytes.norms;
    case TensorRole::kLmHead:
      return bytes.lm_head;
  }
  return bytes.mlp;
}

WeightBytes count_weights(
    const ModelConfig& config, const WeightFormat& format, const CodedMatrices* coded
) {
  WeightBytes bytes;
  for (const ExpectedTensor& tensor : expected_tensors_with_roles(config)) {
    const StoredTensor stored = stored_tensor(tensor.info, config);
    component(bytes, tensor.role) += stored_bytes(stored, format_of(format, coded, tensor));
    const bool is_tied = tensor.role == TensorRole::kEmbedding && config.tie_word_embeddings;
    const bool is_one = coded != nullptr && coded->embedding_is_head();
    if (is_tied && format.quantization && !is_one) {
      bytes.lm_head += stored_bytes(stored, format_of_head(format, coded));
    }
  }
  return bytes;
}

ActivationBytes count_activations(const ModelConfig& config, const MemoryPlan& plan) {
  const int64_t tokens = plan.options.max_num_batched_tokens;
  const int64_t rows = std::min(plan.options.max_num_seqs, tokens);
  const WorkspaceBytes workspace = workspace_bytes(
      config,
      {.weights = {plan.options.weight_dtype, plan.options.quantization},
       .num_tokens_max = static_cast<size_t>(tokens),
       .num_logits_max = static_cast<size_t>(rows),
       .context_max = static_cast<size_t>(plan.max_model_len),
       .num_threads = static_cast<size_t>(plan.options.num_threads)}
  );
  const auto bytes_of = [](size_t num_bytes) { return static_cast<int64_t>(num_bytes); };
  return {
      .hidden = bytes_of(workspace.hidden),
      .normed = bytes_of(workspace.normed),
      .qkv = bytes_of(workspace.qkv),
      .attention = bytes_of(workspace.attention),
      .mlp = bytes_of(workspace.activation),
      .experts = bytes_of(workspace.expert_rows),
      .scores = bytes_of(workspace.attention_scratch),
      .inputs = bytes_of(workspace.linear_scratch),
      .router = bytes_of(workspace.router + workspace.routes),
      .logits = bytes_of(workspace.logits + workspace.head_part + workspace.logits_hidden),
      .rope = plan.max_model_len * config.head_dim * kFloatBytes,
  };
}

std::vector<SequenceCapacity> count_capacities(const MemoryPlan& plan) {
  std::vector<int64_t> lengths;
  for (const int64_t length : {1024, 4096, 8192, 32768, 131072}) {
    if (length < plan.max_model_len) lengths.push_back(length);
  }
  lengths.push_back(plan.max_model_len);
  std::vector<SequenceCapacity> capacities;
  for (const int64_t length : lengths) {
    const int64_t blocks_each = div_ceil(length, plan.options.block_size);
    capacities.push_back({.num_tokens = length, .num_sequences = plan.num_blocks / blocks_each});
  }
  return capacities;
}

std::string format_bytes(int64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
}

// "int8 and bfloat16": the second is what is not quantized.
std::string format_name(const MemoryPlanOptions& options) {
  if (!options.quantization) return std::string(name_of(options.weight_dtype));
  const std::string quantized =
      options.coded ? options.coded->names() : std::string(name_of(*options.quantization));
  return fmt::format("{} and {}", quantized, name_of(options.weight_dtype));
}

// "embedding 1.0 GiB, attention 2.0 GiB", without what is zero.
std::string list_terms(std::initializer_list<std::pair<std::string_view, int64_t>> terms) {
  std::string text;
  for (const auto& [name, bytes] : terms) {
    if (bytes == 0) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", name, format_bytes(bytes));
  }
  return text;
}

// "; --quantization int8 takes 7.70 GiB, int4 takes 4.32 GiB", of those that fit; empty: none does.
std::string list_smaller_formats(const ModelConfig& config, MemoryPlanOptions options) {
  std::string text;
  if (options.quantization) return text;
  for (const QuantizedFormat format : {QuantizedFormat::kInt8, QuantizedFormat::kInt4}) {
    const Quantization smaller = format;
    options.quantization = smaller;
    const Result<MemoryPlan> plan = plan_memory(config, options);
    if (!plan || plan->fixed_bytes() > options.available_bytes) continue;
    text += text.empty() ? "; --quantization " : ", ";
    text += fmt::format("{} takes {}", name_of(smaller), format_bytes(plan->fixed_bytes()));
  }
  return text;
}

}  // namespace

Result<MemoryPlan> plan_memory(const ModelConfig& config, const MemoryPlanOptions& options) {
  const Result<void> good = check_options(options);
  if (!good) return good.error();
  MemoryPlan plan;
  plan.options = options;
  plan.max_model_len =
      options.max_model_len != 0 ? options.max_model_len : config.max_position_embeddings;
  plan.num_parameters = num_parameters(config);
  plan.weights =
      count_weights(config, {options.weight_dtype, options.quantization}, options.coded.get());
  plan.activations = count_activations(config, plan);
  plan.kv_bytes_per_token =
      2 * config.num_layers * config.kv_size() * static_cast<int64_t>(size_of(options.kv_dtype));
  plan.kv_bytes_per_block = plan.kv_bytes_per_token * options.block_size;
  plan.hidden_bytes_per_block = static_cast<int64_t>(hidden_state_bytes(config));

  const int64_t fixed = plan.fixed_bytes();
  const int64_t left = options.available_bytes - fixed;
  plan.num_blocks = left > 0 ? left / plan.bytes_per_block() : 0;
  const int64_t blocks_wanted = div_ceil(plan.max_model_len, options.block_size);
  const std::optional<int64_t> wanted = checked_mul(blocks_wanted, plan.bytes_per_block());
  if (!wanted || *wanted > int64_t{1} << 61) {
    return invalid_argument("one sequence alone would take more than 2^61 bytes", "max_model_len");
  }
  plan.missing_bytes = std::max<int64_t>(0, fixed + *wanted - options.available_bytes);
  plan.capacities = count_capacities(plan);
  return plan;
}

Result<void> check_weights_fit(const ModelConfig& config, const MemoryPlan& plan) {
  if (plan.fixed_bytes() <= plan.options.available_bytes) return {};
  return Error{
      ErrorCode::kResourceExhausted,
      fmt::format(
          "the model takes {} for weights and scratch, and {} are free{}",
          format_bytes(plan.fixed_bytes()),
          format_bytes(plan.options.available_bytes),
          list_smaller_formats(config, plan.options)
      )};
}

Result<void> check_kv_cache_fits(const MemoryPlan& plan, int64_t kv_cache_bytes) {
  constexpr const char* kFlag = "--kv-cache-memory-bytes";
  const int64_t free_bytes = plan.options.available_bytes - plan.fixed_bytes();
  if (kv_cache_bytes <= free_bytes) return {};
  return Error{
      ErrorCode::kResourceExhausted,
      fmt::format(
          "{} is {}, and beside {} of weights and scratch {} are free",
          kFlag,
          format_bytes(kv_cache_bytes),
          format_bytes(plan.fixed_bytes()),
          format_bytes(free_bytes)
      ),
      kFlag};
}

std::string format_plan(const MemoryPlan& plan) {
  const WeightBytes& weights = plan.weights;
  const ActivationBytes& scratch = plan.activations;
  const auto parameters = static_cast<double>(plan.num_parameters);
  std::string text = parameters < 1e8 ? fmt::format("parameters   {:.3f} M\n", parameters / 1e6)
                                      : fmt::format("parameters   {:.3f} B\n", parameters / 1e9);
  text += fmt::format(
      "weights      {} as {} ({})\n",
      format_bytes(weights.total()),
      format_name(plan.options),
      list_terms({
          {"embedding", weights.embedding},
          {"attention", weights.attention},
          {"mlp", weights.mlp},
          {"experts", weights.experts},
          {"router", weights.router},
          {"norms", weights.norms},
          {"lm_head", weights.lm_head},
      })
  );
  text += fmt::format(
      "activations  {} for {} tokens and {} sequences a step ({})\n",
      format_bytes(scratch.total()),
      plan.options.max_num_batched_tokens,
      plan.options.max_num_seqs,
      list_terms({
          {"hidden", scratch.hidden + scratch.normed},
          {"qkv", scratch.qkv},
          {"attention", scratch.attention + scratch.scores},
          {"mlp", scratch.mlp},
          {"experts", scratch.experts},
          {"inputs", scratch.inputs},
          {"router", scratch.router},
          {"logits", scratch.logits},
          {"rope", scratch.rope},
      })
  );
  text += fmt::format(
      "kv cache     {} a token as {}, {} a block of {} tokens with {} for a hidden state\n",
      format_bytes(plan.kv_bytes_per_token),
      name_of(plan.options.kv_dtype),
      format_bytes(plan.bytes_per_block()),
      plan.options.block_size,
      format_bytes(plan.hidden_bytes_per_block)
  );
  text += fmt::format(
      "available    {}: {} blocks, {} tokens\n",
      format_bytes(plan.options.available_bytes),
      plan.num_blocks,
      plan.num_blocks * plan.options.block_size
  );
  for (const SequenceCapacity& capacity : plan.capacities) {
    text += fmt::format(
        "             {:>8} sequences of {:>8} tokens\n",
        capacity.num_sequences,
        capacity.num_tokens
    );
  }
  if (plan.missing_bytes > 0) {
    text += fmt::format(
        "missing      {} until one sequence of {} tokens fits\n",
        format_bytes(plan.missing_bytes),
        plan.max_model_len
    );
  }
  return text;
}

}  // namespace millrace
