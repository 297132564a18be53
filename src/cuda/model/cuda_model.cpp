#include "cuda/model/cuda_model.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/attention_wide.h"
#include "cuda/kernels/draw.h"
#include "cuda/kernels/hidden_rows.h"
#include "cuda/kernels/operand_tiles.h"
#include "cuda/kernels/paged_attention.h"
#include "cuda/runtime.h"
#include "kernels/rope.h"
#include "model/rope_options.h"

namespace millrace::cuda {
namespace {

size_t group_of(const ModelConfig& config) {
  return static_cast<size_t>(config.num_heads / config.num_kv_heads);
}

// A tile holds heads of several tokens, or some of one.
size_t num_tiles_max(
    const ModelConfig& config, size_t num_tokens, size_t tile_rows = kAttentionTileRows
) {
  return num_tokens * div_ceil(group_of(config), tile_rows);
}
// The same where there are fewer sequences: the last tile of each may be of few rows.
size_t num_tiles_max(
    const ModelConfig& config, size_t num_tokens, size_t num_sequences, size_t tile_rows
) {
  const size_t num_whole = div_ceil(num_tokens * group_of(config), tile_rows);
  return std::min(num_tiles_max(config, num_tokens, tile_rows), num_whole + num_sequences);
}

// Attention's tiles of a step that is no decode: many rows are in wide ones, where the device at
// hand has a kernel for them.
StepShape with_widest_tiles(StepShape shape, const ModelConfig& config, size_t num_wide_tiles) {
  const bool are_many =
      shape.num_tiles > DeviceWorkspace::kSplitTilesMax && shape.num_tokens > kFewTokens;
  if (!are_many || !is_for_attention_wide(static_cast<size_t>(config.head_dim))) return shape;
  shape.num_tiles = num_wide_tiles;
  shape.tile_rows = kWideAttentionRows;
  return shape;
}

StepShape largest_shape(const ModelConfig& config, const RunnerLimits& limits) {
  const auto num_tokens = static_cast<size_t>(limits.max_num_batched_tokens);
  return {
      .num_tokens = num_tokens,
      .num_sequences = num_tokens,
      .num_blocks_per_sequence =
          static_cast<size_t>(div_ceil(limits.max_model_len, limits.block_size)),
      .num_tiles = num_tiles_max(config, num_tokens),
      .num_logits = static_cast<size_t>(limits.max_num_logits),
      .num_block_copies = num_tokens,
      .num_hidden_saves = num_tokens,
      .num_draws = static_cast<size_t>(limits.max_num_logits),
      .num_logprob_rows = static_cast<size_t>(limits.max_num_logits),
      .num_pending = num_tokens,
  };
}

StepOutputs::Sizes output_sizes(const ModelConfig& config, const RunnerLimits& limits) {
  return {
      .vocab_size = static_cast<size_t>(config.vocab_size),
      .num_rows_max = static_cast<size_t>(limits.max_num_logits)};
}

// Sequences of a step that has a graph: rows of logits and tokens bound those that decode, and who
// has more, prompts that are nowhere near their ends, does without.
int32_t num_graph_sequences_max(const RunnerLimits& limits) {
  return std::min(limits.max_num_batched_tokens, limits.max_num_logits);
}

// nullopt: this process has the whole model.
std::optional<int64_t> num_ranks(const CudaModelOptions& options) {
  if (options.communicator == nullptr) return std::nullopt;
  return options.communicator->world_size();
}

bool is_decode_of_all(const ForwardBatch& batch) {
  if (batch.num_tokens() == 0 || batch.num_sequences() != batch.num_tokens()) return false;
  if (batch.num_logits() != batch.num_tokens()) return false;
  for (int32_t i = 0; i < batch.num_logits(); ++i) {
    if (batch.logit_rows[static_cast<size_t>(i)] != LogitRow::of_token(i)) return false;
  }
  return true;
}

size_t longest_context(const ForwardBatch& batch) {
  if (batch.context_lens.empty()) return 0;
  return static_cast<size_t>(std::ranges::max(batch.context_lens));
}

// Takes the value, or reports the error that stands in its place.
template <class T>
Result<void> take(Result<T> result, T& target) {
  if (!result) return result.error();
  target = *std::move(result);
  return {};
}

}  // namespace

CudaModel::CudaModel(const ModelConfig& config, const CudaModelOptions& options, Stream stream)
    : config_(config),
      options_(options),
      stream_(std::move(stream)),
      decoder_(
          {.config = config_,
           .weights = weights_,
           .kv_cache = kv_cache_,
           .workspace = workspace_,
           .rope = rope_,
           .saved_hidden = saved_hidden_,
           .communicator = options.communicator}
      ),
      decodes_{GraphBuckets::for_decode(num_graph_sequences_max(options.limits))},
      layers_{GraphBuckets::for_tokens(options.limits.max_num_batched_tokens)} {}

Result<std::unique_ptr<CudaModel>> CudaModel::load(
    const ModelConfig& config,
    const WeightSource& source,
    const CudaModelOptions& options,
    ThreadPool& pool,
    const LoadProgress& progress
) {
  CHECK(num_ranks(options) == config.num_head_parts, "a part of the model for each rank");
  Result<void> done = check_runnable_model(config);
  if (!done) return done.error();
  if (done = check_dense_model(config, "run on a device"); !done) return done.error();
  if (done = check_limits(options.limits); !done) return done.error();
  const Result<std::optional<QuantizedFormat>> quantization =
      device_quantization(config, options.quantization);
  if (!quantization) return quantization.error();
  if (const Result<DeviceInfo> device = find_device(options.device); !device) {
    return device.error();
  }
  use_device(options.device);
  Result<Stream> stream = Stream::create();
  if (!stream) return stream.error();
  CudaModelOptions found = options;
  found.quantization = *quantization;
  std::unique_ptr<CudaModel> model(new CudaModel(config, found, *std::move(stream)));
  // What may not fit comes first: the weights take the longest to read.
  if (done = model->allocate(pool); !done) return done.error();
  done = take(
      load_device_weights(
          config,
          source,
          {.quantization = *quantization, .progress = progress},
          model->stream_.handle(),
          pool
      ),
      model->weights_
  );
  if (!done) return done.error();
  if (options.use_graphs) {
    if (done = model->capture_graphs(progress); !done) return done.error();
  }
  return model;
}

Result<void> CudaModel::allocate(ThreadPool& pool) {
  const RunnerLimits& limits = options_.limits;
  const DeviceKvCache::Shape kv_shape = {
      .block_size = limits.block_size, .num_blocks = limits.num_blocks};
  Result<void> done = take(DeviceKvCache::allocate(config_, kv_shape), kv_cache_);
  if (!done) return done;
  const size_t saved_bytes = static_cast<size_t>(limits.num_hidden_slots) *
                             static_cast<size_t>(config_.hidden_size) * sizeof(float);
  if (done = take(DeviceBuffer::allocate(saved_bytes), saved_hidden_); !done) return done;
  done = take(
      DeviceWorkspace::allocate(stream_.handle(), config_, limits, options_.quantization),
      workspace_
  );
  if (!done) return done;
  done = take(
      StepInputs::allocate(
          largest_shape(config_, limits), kv_cache_.padding_slot(), group_of(config_)
      ),
      inputs_
  );
  if (!done) return done;
  done = take(StepOutputs::allocate(output_sizes(config_, limits)), outputs_);
  if (!done) return done;
  return copy_rope_table(pool);
}

Result<void> CudaModel::copy_rope_table(ThreadPool& pool) {
  const RopeOptions options = rope_options(config_, options_.limits.max_model_len);
  const Result<RopeTable> table = RopeTable::make(options, pool);
  if (!table) return table.error();
  const std::span<const std::byte> bytes =
      std::as_bytes(std::span(table->data(), RopeTable::num_bytes(options) / sizeof(float)));
  if (Result<void> done = take(DeviceBuffer::allocate(bytes.size()), rope_); !done) return done;
  rope_.write(stream_.handle(), bytes);
  stream_.wait();
  return {};
}

Result<void> CudaModel::capture_graphs(const LoadProgress& progress) {
  const StreamHandle stream = stream_.handle();
  const auto context_len_max = static_cast<size_t>(options_.limits.max_model_len);
  const int64_t num_bytes_free = memory_info().num_bytes_free;
  const auto report = [&] {
    if (progress)
      progress(num_graphs(), decodes_.buckets.sizes().size() + layers_.buckets.sizes().size());
  };
  for (const int32_t size : decodes_.buckets.sizes()) {
    const StepView view = inputs_.view(decode_shape({}, size));
    Result<Graph> graph = Graph::capture(stream, [&] {
      decoder_.layers(stream, view, context_len_max);
      decoder_.logits(stream, view);
    });
    if (!graph) return graph.error();
    decodes_.graphs.push_back(*std::move(graph));
    report();
  }
  for (const int32_t size : layers_.buckets.sizes()) {
    if (num_bytes_free - memory_info().num_bytes_free >= options_.num_graph_bytes) break;
    const StepView view = inputs_.view(layers_shape({}, size));
    Result<Graph> graph =
        Graph::capture(stream, [&] { decoder_.layers(stream, view, context_len_max); });
    if (!graph) return graph.error();
    layers_.graphs.push_back(*std::move(graph));
    report();
  }
  return {};
}

std::optional<int32_t> CudaModel::Graphs::size_for(size_t num_rows) const {
  if (num_rows == 0 || graphs.empty()) return std::nullopt;
  const std::optional<int32_t> size = buckets.smallest_that_fits(static_cast<int32_t>(num_rows));
  return size && *size <= buckets.sizes()[graphs.size() - 1] ? size : std::nullopt;
}

const Graph& CudaModel::Graphs::of_size(int32_t size) const {
  const auto sizes = buckets.sizes();
  return graphs[static_cast<size_t>(std::ranges::lower_bound(sizes, size) - sizes.begin())];
}

// What a graph reads is of the graph's size.
StepShape CudaModel::decode_shape(StepShape own, int32_t num_sequences) const {
  own.num_tokens = static_cast<size_t>(num_sequences);
  own.num_sequences = own.num_tokens;
  own.num_blocks_per_sequence = largest_shape(config_, options_.limits).num_blocks_per_sequence;
  own.num_tiles = num_tiles_max(config_, own.num_tokens);
  own.num_logits = own.num_tokens;
  own.is_decode = true;
  return own;
}

StepShape CudaModel::layers_shape(StepShape own, int32_t num_tokens) const {
  own.num_tokens = static_cast<size_t>(num_tokens);
  own.num_sequences =
      static_cast<size_t>(std::min(num_tokens, num_graph_sequences_max(options_.limits)));
  own.num_blocks_per_sequence = largest_shape(config_, options_.limits).num_blocks_per_sequence;
  const auto num_tiles = [&](size_t tile_rows) {
    return num_tiles_max(config_, own.num_tokens, own.num_sequences, tile_rows);
  };
  own.num_tiles = num_tiles(kAttentionTileRows);
  own.is_decode = false;
  return with_widest_tiles(own, config_, num_tiles(kWideAttentionRows));
}

CudaModel::StepPlan CudaModel::plan_step(const ForwardBatch& batch) const {
  const StepShape own = shape_of(batch, group_of(config_));
  if (is_decode_of_all(batch)) {
    if (const std::optional<int32_t> size = decodes_.size_for(own.num_sequences)) {
      return {&decodes_.of_size(*size), true, decode_shape(own, *size)};
    }
  }
  if (const std::optional<int32_t> size = layers_.size_for(own.num_tokens)) {
    const StepShape shape = layers_shape(own, *size);
    if (own.num_sequences <= shape.num_sequences) return {&layers_.of_size(*size), false, shape};
  }
  if (own.is_decode) return {nullptr, false, own};
  const size_t num_wide_tiles =
      num_attention_tiles(batch.cu_seqlens, group_of(config_), kWideAttentionRows);
  return {nullptr, false, with_widest_tiles(own, config_, num_wide_tiles)};
}

std::span<const float> CudaModel::forward(const ForwardBatch& batch) {
  CHECK(outputs_.num_under_way() == 0, "forward() is for whom nothing else is under way");
  CHECK(batch.draws.empty() && batch.pending.empty(), "forward() gives logits");
  launch(batch);
  return wait().logits;
}

void CudaModel::launch(const ForwardBatch& batch) {
  check_batch(batch, config_.vocab_size, options_.limits);
  CHECK(outputs_.num_under_way() < StepOutputs::kNumStepsMax, "two steps are under way at most");
  use_device(options_.device);
  const StreamHandle stream = stream_.handle();
  const StepPlan plan = plan_step(batch);
  const StepView step = inputs_.send(stream, batch, outputs_.draws_of(batch.pending), plan.shape);
  kv_cache_.copy_blocks(stream, step.block_copies, plan.shape.num_block_copies);
  fill_drawn_tokens(
      stream,
      {.tokens = step.pending,
       .num_tokens = plan.shape.num_pending,
       .drawn = outputs_.drawn(),
       .token_ids = step.token_ids}
  );
  compute(batch, plan, step);
  save_rows(
      stream,
      {.hidden = workspace_.hidden,
       .saved = saved_hidden_.as<float>(),
       .width = static_cast<size_t>(config_.hidden_size),
       .saves = step.hidden_saves,
       .num_rows = plan.shape.num_hidden_saves}
  );
  outputs_.collect(stream, batch, step, workspace_.logits);
}

void CudaModel::compute(const ForwardBatch& batch, const StepPlan& plan, const StepView& step) {
  const StreamHandle stream = stream_.handle();
  if (plan.graph != nullptr) {
    plan.graph->launch(stream);
    ++num_graph_launches_;
  } else if (batch.num_tokens() > 0) {
    decoder_.layers(stream, step, longest_context(batch));
  }
  if (!plan.has_logits) decoder_.logits(stream, step);
}

StepResult CudaModel::wait() {
  use_device(options_.device);
  return outputs_.wait();
}

size_t CudaModel::num_step_weight_bytes() const {
  const size_t embedding = sizeof(uint16_t) * num_weight_elements(
                                                  static_cast<size_t>(config_.vocab_size),
                                                  static_cast<size_t>(config_.hidden_size)
                                              );
  const bool has_own_head = weights_.lm_head.data != weights_.embedding;
  return num_weight_bytes() - (has_own_head ? embedding : 0);
}

size_t CudaModel::workspace_bytes(
    const ModelConfig& config,
    const RunnerLimits& limits,
    std::optional<QuantizedFormat> quantization
) {
  return DeviceWorkspace::num_bytes(config, limits, quantization) +
         StepInputs::num_bytes(largest_shape(config, limits)) +
         StepOutputs::num_bytes(output_sizes(config, limits)) +
         RopeTable::num_bytes(rope_options(config, limits.max_model_len));
}

}  // namespace millrace::cuda
