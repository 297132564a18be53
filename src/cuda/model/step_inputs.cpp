#include "cuda/model/step_inputs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"

namespace millrace::cuda {
namespace {

// Elements of each array, in the order in which they lie. What a graph reads comes first, so that
// its addresses do not depend on copies and saves.
using Sizes = std::array<size_t, 12>;

// Of a struct of int32_t.
template <class T>
constexpr size_t kElements = sizeof(T) / sizeof(int32_t);

Sizes sizes_of(const StepShape& shape) {
  return {
      shape.num_tokens,
      shape.num_tokens,
      shape.num_tokens,
      shape.num_sequences + 1,
      shape.num_sequences * shape.num_blocks_per_sequence,
      shape.num_tiles * kElements<AttentionTile>,
      shape.num_logits * kElements<RowSource>,
      shape.num_block_copies * kElements<BlockCopy>,
      shape.num_hidden_saves * kElements<RowSave>,
      shape.num_draws * kElements<DrawRow>,
      shape.num_logprob_rows,
      shape.num_pending * kElements<TokenOfDraw>,
  };
}

size_t num_elements(const StepShape& shape) {
  size_t count = 0;
  for (const size_t size : sizes_of(shape)) count += size;
  return count;
}

// The arrays in turn, out of one.
class Cutter {
 public:
  explicit Cutter(std::span<int32_t> rest) : rest_(rest) {}

  std::span<int32_t> next(size_t count) {
    CHECK(count <= rest_.size(), "a step is no larger than what there is memory for");
    const std::span<int32_t> piece = rest_.first(count);
    rest_ = rest_.subspan(count);
    return piece;
  }

 private:
  std::span<int32_t> rest_;
};

template <class T>
const T* as(std::span<int32_t> piece) {
  return reinterpret_cast<const T*>(piece.data());
}

// Copies, and fills what is behind.
void fill(std::span<const int32_t> from, int32_t rest, std::span<int32_t> to) {
  CHECK(from.size() <= to.size(), "a shape that holds the batch");
  std::ranges::copy(from, to.begin());
  std::ranges::fill(to.subspan(from.size()), rest);
}

// What lies beyond a context is never read, and stays what it was.
void fill_block_tables(const ForwardBatch& batch, size_t num_columns, std::span<int32_t> to) {
  const auto from_columns = static_cast<size_t>(batch.max_blocks_per_sequence);
  const size_t num_kept = std::min(from_columns, num_columns);
  for (size_t i = 0; i < batch.context_lens.size(); ++i) {
    const auto row = batch.block_tables.begin() + static_cast<ptrdiff_t>(i * from_columns);
    std::copy_n(row, num_kept, to.begin() + static_cast<ptrdiff_t>(i * num_columns));
  }
}

void fill_cu_seqlens(const ForwardBatch& batch, std::span<int32_t> to) {
  std::ranges::copy(batch.cu_seqlens, to.begin());
  std::ranges::fill(to.subspan(batch.cu_seqlens.size()), batch.cu_seqlens.back());
}

std::vector<AttentionTile> tiles_of(
    const ForwardBatch& batch,
    std::span<const int32_t> cu_seqlens,
    size_t group,
    const StepShape& shape
) {
  if (shape.tile_rows == kWideAttentionRows) {
    return wide_attention_tiles(cu_seqlens, batch.context_lens, group);
  }
  return attention_tiles(cu_seqlens, group);
}

// Structs of int32_t one after the other, zeros behind them: tiles of no rows, the first token's
// logits.
template <class T>
void fill_structs(std::span<const T> values, std::span<int32_t> to) {
  CHECK(values.size() * kElements<T> <= to.size(), "a shape that holds the batch");
  std::ranges::fill(to, 0);
  if (!values.empty()) std::memcpy(to.data(), values.data(), values.size_bytes());
}

template <class T, class From, class Convert>
void fill_converted(
    const std::vector<From>& values, std::span<int32_t> to, const Convert& convert
) {
  for (size_t i = 0; i < values.size(); ++i) {
    const T value = convert(values[i]);
    fill_structs<T>({&value, 1}, to.subspan(i * kElements<T>, kElements<T>));
  }
}

bool is_drawn(const std::optional<DrawParams>& draw) {
  return draw.has_value();
}
bool has_logprobs(const std::optional<DrawParams>& draw) {
  return draw && draw->logprobs;
}

// In the order of their rows.
void fill_draws(
    const ForwardBatch& batch, std::span<int32_t> draws, std::span<int32_t> logprob_rows
) {
  for (size_t i = 0; i < batch.draws.size(); ++i) {
    const std::optional<DrawParams>& draw = batch.draws[i];
    if (!is_drawn(draw)) continue;
    const auto row = static_cast<int32_t>(i);
    const DrawRow of_row = DrawRow::of(row, *draw);
    fill_structs<DrawRow>({&of_row, 1}, draws.first(kElements<DrawRow>));
    draws = draws.subspan(kElements<DrawRow>);
    if (!has_logprobs(draw)) continue;
    logprob_rows.front() = row;
    logprob_rows = logprob_rows.subspan(1);
  }
}

}  // namespace

StepShape shape_of(const ForwardBatch& batch, size_t group) {
  return {
      .num_tokens = batch.token_ids.size(),
      .num_sequences = batch.context_lens.size(),
      .num_blocks_per_sequence = static_cast<size_t>(batch.max_blocks_per_sequence),
      .num_tiles = num_attention_tiles(batch.cu_seqlens, group),
      .num_logits = batch.logit_rows.size(),
      .num_block_copies = batch.block_copies.size(),
      .num_hidden_saves = batch.hidden_saves.size(),
      .num_draws = static_cast<size_t>(std::ranges::count_if(batch.draws, is_drawn)),
      .num_logprob_rows = static_cast<size_t>(std::ranges::count_if(batch.draws, has_logprobs)),
      .num_pending = batch.pending.size(),
      .is_decode = batch.num_sequences() == batch.num_tokens(),
  };
}

size_t StepInputs::num_bytes(const StepShape& largest) {
  return num_elements(largest) * sizeof(int32_t);
}

Result<StepInputs> StepInputs::allocate(
    const StepShape& largest, int32_t padding_slot, size_t group
) {
  StepInputs inputs;
  for (PinnedBuffer& target : inputs.hosts_) {
    Result<PinnedBuffer> host = PinnedBuffer::allocate(num_bytes(largest));
    if (!host) return host.error();
    target = *std::move(host);
  }
  Result<DeviceBuffer> device = DeviceBuffer::allocate(num_bytes(largest));
  if (!device) return device.error();
  inputs.device_ = *std::move(device);
  inputs.padding_slot_ = padding_slot;
  inputs.group_ = group;
  return inputs;
}

StepView StepInputs::view(const StepShape& shape) const {
  const Sizes sizes = sizes_of(shape);
  Cutter arrays({device_.as<int32_t>(), device_.num_bytes() / sizeof(int32_t)});
  return {
      .shape = shape,
      .token_ids = arrays.next(sizes[0]).data(),
      .positions = arrays.next(sizes[1]).data(),
      .slots = arrays.next(sizes[2]).data(),
      .cu_seqlens = arrays.next(sizes[3]).data(),
      .block_tables = arrays.next(sizes[4]).data(),
      .tiles = as<AttentionTile>(arrays.next(sizes[5])),
      .logit_sources = as<RowSource>(arrays.next(sizes[6])),
      .block_copies = as<BlockCopy>(arrays.next(sizes[7])),
      .hidden_saves = as<RowSave>(arrays.next(sizes[8])),
      .draws = as<DrawRow>(arrays.next(sizes[9])),
      .logprob_rows = arrays.next(sizes[10]).data(),
      .pending = as<TokenOfDraw>(arrays.next(sizes[11])),
  };
}

StepView StepInputs::send(
    StreamHandle stream,
    const ForwardBatch& batch,
    std::span<const TokenOfDraw> pending,
    const StepShape& shape
) {
  CHECK(shape.num_sequences >= batch.context_lens.size(), "a shape that holds the batch");
  const Sizes sizes = sizes_of(shape);
  const PinnedBuffer& host = hosts_[num_sent_++ % hosts_.size()];
  Cutter arrays(host.as<int32_t>());
  fill(batch.token_ids, 0, arrays.next(sizes[0]));
  fill(batch.positions, 0, arrays.next(sizes[1]));
  fill(batch.slot_mapping, padding_slot_, arrays.next(sizes[2]));
  const std::span<int32_t> cu_seqlens = arrays.next(sizes[3]);
  fill_cu_seqlens(batch, cu_seqlens);
  fill_block_tables(batch, shape.num_blocks_per_sequence, arrays.next(sizes[4]));
  fill_structs<AttentionTile>(tiles_of(batch, cu_seqlens, group_, shape), arrays.next(sizes[5]));
  const std::span<int32_t> sources = arrays.next(sizes[6]);
  std::ranges::fill(sources, 0);
  fill_converted<RowSource>(batch.logit_rows, sources, [](const LogitRow& row) {
    return RowSource{.is_saved = row.source == LogitRow::Source::kHiddenSlot, .index = row.index};
  });
  fill_converted<BlockCopy>(batch.block_copies, arrays.next(sizes[7]), [](const KvBlockCopy& copy) {
    return BlockCopy{.from = copy.from, .to = copy.to};
  });
  fill_converted<RowSave>(batch.hidden_saves, arrays.next(sizes[8]), [](const HiddenSave& save) {
    return RowSave{.token = save.token, .slot = save.slot};
  });
  const std::span<int32_t> draws = arrays.next(sizes[9]);
  fill_draws(batch, draws, arrays.next(sizes[10]));
  fill_structs<TokenOfDraw>(pending, arrays.next(sizes[11]));
  device_.write(stream, host.bytes().first(num_bytes(shape)));
  return view(shape);
}

}  // namespace millrace::cuda
