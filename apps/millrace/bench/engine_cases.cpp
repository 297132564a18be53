#include "bench/engine_cases.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "base/rng.h"

namespace millrace::bench {
namespace {

struct TokenRange {
  int32_t sequence = 0;
  int32_t begin = 0;  // position
  int32_t end = 0;
};

class BatchBuilder {
 public:
  explicit BatchBuilder(const SpeedLayout& layout) : layout_(layout) {
    batch_.cu_seqlens = {0};
    batch_.max_blocks_per_sequence = layout.blocks_per_sequence;
  }

  int32_t num_tokens_free() const { return layout_.max_num_batched_tokens - batch_.num_tokens(); }

  void add(const TokenRange& range, bool wants_logits) {
    CHECK(range.begin < range.end, "a sequence of a batch has tokens");
    CHECK(range.end - range.begin <= num_tokens_free(), "the tokens fit the step");
    CHECK(range.end <= layout_.blocks_per_sequence * layout_.block_size, "and the cache");
    const int32_t first_block = range.sequence * layout_.blocks_per_sequence;
    for (int32_t position = range.begin; position < range.end; ++position) {
      const uint64_t bits =
          random_bits(static_cast<uint64_t>(range.sequence), static_cast<uint64_t>(position));
      batch_.token_ids.push_back(
          static_cast<TokenId>(bits % static_cast<uint64_t>(layout_.vocab_size))
      );
      batch_.positions.push_back(position);
      batch_.slot_mapping.push_back(first_block * layout_.block_size + position);
    }
    batch_.cu_seqlens.push_back(batch_.num_tokens());
    batch_.context_lens.push_back(range.end);
    for (int32_t i = 0; i < layout_.blocks_per_sequence; ++i) {
      batch_.block_tables.push_back(first_block + i);
    }
    if (wants_logits) batch_.logit_rows.push_back(LogitRow::of_token(batch_.num_tokens() - 1));
  }

  // The batch so far; an empty one is begun.
  ForwardBatch take() { return std::exchange(*this, BatchBuilder(layout_)).batch_; }
  bool is_empty() const { return batch_.token_ids.empty(); }

 private:
  SpeedLayout layout_;
  ForwardBatch batch_;
};

std::vector<ForwardBatch> prefill_batches(const SpeedCase& speed_case, const SpeedLayout& layout) {
  std::vector<ForwardBatch> batches;
  BatchBuilder builder(layout);
  for (int32_t sequence = 0; sequence < speed_case.batch_size; ++sequence) {
    const int32_t end = speed_case.context_len + speed_case.num_tokens;
    for (int32_t begin = speed_case.context_len; begin < end;) {
      const int32_t chunk_end = std::min(end, begin + builder.num_tokens_free());
      builder.add({sequence, begin, chunk_end}, chunk_end == end);
      begin = chunk_end;
      if (builder.num_tokens_free() == 0) batches.push_back(builder.take());
    }
  }
  if (!builder.is_empty()) batches.push_back(builder.take());
  return batches;
}

std::vector<ForwardBatch> decode_batches(const SpeedCase& speed_case, const SpeedLayout& layout) {
  std::vector<ForwardBatch> batches;
  for (int32_t step = 0; step < speed_case.num_tokens; ++step) {
    const int32_t position = speed_case.context_len + step;
    BatchBuilder builder(layout);
    for (int32_t sequence = 0; sequence < speed_case.batch_size; ++sequence) {
      builder.add({sequence, position, position + 1}, true);
    }
    batches.push_back(builder.take());
  }
  return batches;
}

}  // namespace

std::string_view name_of(SpeedPhase phase) {
  return phase == SpeedPhase::kPrefill ? "prefill" : "decode";
}

std::vector<ForwardBatch> batches_of(const SpeedCase& speed_case, const SpeedLayout& layout) {
  return speed_case.phase == SpeedPhase::kPrefill ? prefill_batches(speed_case, layout)
                                                  : decode_batches(speed_case, layout);
}

void draw_tokens(SpeedPhase phase, std::vector<ForwardBatch>& batches) {
  for (size_t step = 0; step < batches.size(); ++step) {
    ForwardBatch& batch = batches[step];
    batch.draws.assign(batch.logit_rows.size(), DrawParams{});
    if (phase == SpeedPhase::kPrefill || step == 0) continue;
    for (int32_t i = 0; i < batch.num_tokens(); ++i)
      batch.pending.push_back({.token = i, .row = i});
    std::ranges::fill(batch.token_ids, kPendingToken);
  }
}

std::vector<ForwardBatch> context_batches(
    int32_t context_len, int32_t num_sequences, const SpeedLayout& layout
) {
  if (context_len == 0) return {};
  BatchBuilder computed(layout);
  const int32_t num_computed = std::min(context_len, layout.max_num_batched_tokens);
  computed.add({0, 0, num_computed}, true);
  // A batch computes something besides its copies: the first token again.
  BatchBuilder copied(layout);
  copied.add({0, 0, 1}, true);

  std::vector<ForwardBatch> batches = {computed.take(), copied.take()};
  const int32_t num_blocks_computed = div_ceil(num_computed, layout.block_size);
  const int32_t num_blocks = div_ceil(context_len, layout.block_size);
  for (int32_t sequence = 0; sequence < num_sequences; ++sequence) {
    for (int32_t i = 0; i < num_blocks; ++i) {
      if (sequence == 0 && i < num_blocks_computed) continue;
      batches.back().block_copies.push_back(
          {.from = i % num_blocks_computed, .to = sequence * layout.blocks_per_sequence + i}
      );
    }
  }
  return batches;
}

}  // namespace millrace::bench
