#include "model/cpu_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "model/stored_weights.h"

namespace millrace {
namespace {

std::string_view unsupported_family_name(ModelFamily family) {
  switch (family) {
    case ModelFamily::kQwen2Moe:
      return "qwen2_moe";
    case ModelFamily::kQwen3Moe:
      return "qwen3_moe";
    case ModelFamily::kLlama:
    case ModelFamily::kQwen2:
    case ModelFamily::kQwen3:
      return {};
  }
  return {};
}

// The largest head_dim of a model that the operators are tested with.
constexpr int64_t kHeadDimMax = 256;

Result<void> check_config(const ModelConfig& config) {
  const std::string_view family = unsupported_family_name(config.family);
  if (!family.empty()) return unsupported(fmt::format("{} models cannot be run yet", family));
  if (config.moe) return unsupported("models with experts cannot be run yet");
  const int64_t sizes[] = {
      config.hidden_size,
      config.intermediate_size,
      config.num_layers,
      config.num_heads,
      config.num_kv_heads,
      config.vocab_size};
  if (std::ranges::min(sizes) <= 0) return invalid_argument("a size of the model is not positive");
  if (config.num_heads % config.num_kv_heads != 0) {
    return invalid_argument(fmt::format(
        "{} attention heads cannot share {} KV heads", config.num_heads, config.num_kv_heads
    ));
  }
  if (config.head_dim <= 0 || config.head_dim % 2 != 0 || config.head_dim > kHeadDimMax) {
    return unsupported(fmt::format(
        "head_dim is {}, expected an even number up to {}", config.head_dim, kHeadDimMax
    ));
  }
  return {};
}

Result<void> check_options(const CpuModelOptions& options) {
  const std::pair<std::string_view, int32_t> limits[] = {
      {"max_model_len", options.max_model_len},
      {"max_num_batched_tokens", options.max_num_batched_tokens},
      {"max_num_logits", options.max_num_logits},
  };
  for (const auto& [name, value] : limits) {
    if (value <= 0)
      return invalid_argument(fmt::format("{} is {}, expected 1 or more", name, value));
  }
  if (options.num_hidden_slots < 0) {
    return invalid_argument(
        fmt::format("num_hidden_slots is {}, expected 0 or more", options.num_hidden_slots)
    );
  }
  const std::span<const Isa> isas = supported_isas();
  if (std::find(isas.begin(), isas.end(), options.isa) == isas.end()) {
    return unsupported(fmt::format("this processor cannot run {}", name_of(options.isa)));
  }
  return {};
}

RopeOptions rope_options(const ModelConfig& config, int32_t num_positions) {
  RopeOptions options = {
      .head_dim = static_cast<size_t>(config.head_dim),
      .theta = config.rope_theta,
      .scaling = std::nullopt,
      .num_positions = static_cast<size_t>(num_positions),
  };
  if (config.rope_scaling) {
    options.scaling = RopeScaling{
        .factor = config.rope_scaling->factor,
        .low_freq_factor = config.rope_scaling->low_freq_factor,
        .high_freq_factor = config.rope_scaling->high_freq_factor,
        .original_max_position =
            static_cast<double>(config.rope_scaling->original_max_position_embeddings),
    };
  }
  return options;
}

WorkspaceLimits workspace_limits(const CpuModelOptions& options, size_t num_threads) {
  return {
      .weights = {options.dtype, options.quantization},
      .num_tokens_max = static_cast<size_t>(options.max_num_batched_tokens),
      .num_logits_max = static_cast<size_t>(options.max_num_logits),
      .context_max = static_cast<size_t>(options.max_model_len),
      .num_threads = num_threads,
  };
}

Result<ActivationBuffer> allocate_saved_hidden(
    const ModelConfig& config, const CpuModelOptions& options
) {
  const std::optional<size_t> num_bytes =
      checked_mul(static_cast<size_t>(options.num_hidden_slots), hidden_state_bytes(config));
  if (!num_bytes) return invalid_argument("the hidden states' size does not fit in 64 bits");
  return ActivationBuffer::allocate(*num_bytes, static_cast<size_t>(config.hidden_size));
}

// Takes the value, or reports the error that stands in its place.
template <class T>
Result<void> take(Result<T> result, T& target) {
  if (!result) return result.error();
  target = *std::move(result);
  return {};
}

}  // namespace

CpuModel::CpuModel(const ModelConfig& config, const CpuModelOptions& options, ThreadPool& pool)
    : config_(config),
      options_(options),
      decoder_(
          {.isa = options.isa, .pool = pool},
          {.config = config_,
           .weights = weights_,
           .rope = rope_,
           .kv_cache = kv_cache_,
           .workspace = workspace_,
           .saved_hidden = saved_hidden_,
           .num_input_terms = options.quantization ? options.quantization->num_input_terms : 1}
      ) {}

Result<std::unique_ptr<CpuModel>> CpuModel::load(
    const ModelConfig& config,
    const WeightSource& source,
    const CpuModelOptions& options,
    ThreadPool& pool,
    const LoadProgress& progress
) {
  const std::optional<QuantizedFormat> stored = config.stored_quantization;
  if (stored && (!options.quantization || options.quantization->format != *stored)) {
    return invalid_argument(
        fmt::format("the weights are stored as {}", name_of(*stored)), "quantization_config"
    );
  }
  // What may not fit comes first: the weights take the longest to read.
  Result<std::unique_ptr<CpuModel>> model = allocate(config, options, pool);
  if (!model) return model;
  const WeightFormat format = {options.dtype, options.quantization};
  Result<ModelWeights> weights = stored
                                     ? load_stored_weights(config, source, format, pool, progress)
                                     : load_weights(config, source, format, pool, progress);
  const Result<void> done = take(std::move(weights), (*model)->weights_);
  if (!done) return done.error();
  return model;
}

Result<std::unique_ptr<CpuModel>> CpuModel::from_weights(
    const ModelConfig& config,
    ModelWeights weights,
    const CpuModelOptions& options,
    ThreadPool& pool
) {
  Result<std::unique_ptr<CpuModel>> model = allocate(config, options, pool);
  if (model) (*model)->weights_ = std::move(weights);
  return model;
}

Result<std::unique_ptr<CpuModel>> CpuModel::allocate(
    const ModelConfig& config, const CpuModelOptions& options, ThreadPool& pool
) {
  Result<void> done = check_config(config);
  if (!done) return done.error();
  if (done = check_options(options); !done) return done.error();

  std::unique_ptr<CpuModel> model(new CpuModel(config, options, pool));
  const KvCacheOptions kv_options = {
      .dtype = options.kv_dtype,
      .block_size = options.block_size,
      .num_blocks = options.num_blocks};
  done = take(KvCache::allocate(config, kv_options), model->kv_cache_);
  if (!done) return done.error();
  done = take(allocate_saved_hidden(config, options), model->saved_hidden_);
  if (!done) return done.error();
  const WorkspaceLimits limits = workspace_limits(options, pool.num_threads());
  done = take(Workspace::allocate(config, limits), model->workspace_);
  if (!done) return done.error();
  done = take(RopeTable::make(rope_options(config, options.max_model_len), pool), model->rope_);
  if (!done) return done.error();
  return model;
}

WorkspaceBytes CpuModel::workspace_bytes(
    const ModelConfig& config, const CpuModelOptions& options, size_t num_threads
) {
  return millrace::workspace_bytes(config, workspace_limits(options, num_threads));
}

std::span<const float> CpuModel::forward(const ForwardBatch& batch) {
  check(batch);
  const ConstRows logits = decoder_.forward(batch);
  return {logits.data, logits.num_rows * logits.num_columns};
}

void CpuModel::check(const ForwardBatch& batch) const {
  CHECK(batch.num_tokens() > 0 || batch.num_logits() > 0, "a batch has something to compute");
  CHECK(batch.num_tokens() <= options_.max_num_batched_tokens, "no more tokens than at load");
  CHECK(batch.num_logits() <= options_.max_num_logits, "no more logits than at load");
  for (const TokenId id : batch.token_ids) {
    CHECK(id >= 0 && id < config_.vocab_size, "a token of the vocabulary");
  }
  check_sequences(batch);
  check_hidden(batch);
}

void CpuModel::check_sequences(const ForwardBatch& batch) const {
  const size_t num_tokens = batch.token_ids.size();
  const size_t num_sequences = batch.context_lens.size();
  CHECK(batch.positions.size() == num_tokens, "one position a token");
  CHECK(batch.slot_mapping.size() == num_tokens, "one slot a token");
  CHECK(batch.cu_seqlens.size() == num_sequences + 1, "one start a sequence, and the end");
  CHECK(
      batch.cu_seqlens.front() == 0 && batch.cu_seqlens.back() == batch.num_tokens(),
      "the sequences cover the tokens"
  );
  CHECK(num_sequences == 0 || batch.max_blocks_per_sequence > 0, "block tables have columns");
  CHECK(
      batch.block_tables.size() ==
          num_sequences * static_cast<size_t>(batch.max_blocks_per_sequence),
      "one block table a sequence"
  );
  for (size_t sequence = 0; sequence < num_sequences; ++sequence) check_sequence(batch, sequence);
}

void CpuModel::check_sequence(const ForwardBatch& batch, size_t sequence) const {
  const int32_t begin = batch.cu_seqlens[sequence];
  const int32_t end = batch.cu_seqlens[sequence + 1];
  const int32_t context = batch.context_lens[sequence];
  CHECK(begin < end, "a sequence of the batch has tokens");
  CHECK(context <= options_.max_model_len, "no longer context than at load");
  CHECK(
      div_ceil(context, options_.block_size) <= batch.max_blocks_per_sequence,
      "the block table covers the context"
  );
  const auto row = static_cast<size_t>(batch.max_blocks_per_sequence) * sequence;
  for (int32_t i = begin; i < end; ++i) {
    const auto token = static_cast<size_t>(i);
    const int32_t position = batch.positions[token];
    CHECK(position == context - (end - i), "the tokens are the last of their context, in order");
    CHECK(position >= 0, "positions count from 0");
    const auto block_index = static_cast<size_t>(position / options_.block_size);
    const int32_t block = batch.block_tables[row + block_index];
    CHECK(block >= 0 && block < options_.num_blocks, "a block that exists");
    CHECK(
        batch.slot_mapping[token] == block * options_.block_size + position % options_.block_size,
        "the slot is where the block table says"
    );
  }
}

void CpuModel::check_hidden(const ForwardBatch& batch) const {
  const auto is_token = [&](int32_t index) { return index >= 0 && index < batch.num_tokens(); };
  const auto is_slot = [&](int32_t index) {
    return index >= 0 && index < options_.num_hidden_slots;
  };
  for (const LogitRow& row : batch.logit_rows) {
    const bool is_of_token = row.source == LogitRow::Source::kToken;
    CHECK(!is_of_token || is_token(row.index), "logits of a token of this batch");
    CHECK(is_of_token || is_slot(row.index), "logits of a hidden slot that exists");
  }
  // Two states in one slot would give one sequence the other's answer.
  for (auto save = batch.hidden_saves.begin(); save != batch.hidden_saves.end(); ++save) {
    CHECK(is_token(save->token), "the hidden state of a token of this batch is saved");
    CHECK(is_slot(save->slot), "a hidden state is saved in a slot that exists");
    const bool is_first = std::none_of(batch.hidden_saves.begin(), save, [&](const HiddenSave& b) {
      return b.slot == save->slot;
    });
    CHECK(is_first, "one hidden state a slot");
  }
}

}  // namespace millrace
