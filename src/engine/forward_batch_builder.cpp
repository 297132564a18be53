#include "engine/forward_batch_builder.h"

#include <algorithm>

#include "base/check.h"

namespace millrace {
namespace {

void append_sequence(const ScheduledSequence& scheduled, ForwardBatch& batch) {
  const Sequence& sequence = *scheduled.sequence;
  CHECK(scheduled.num_tokens > 0, "a stretch that does not resume has tokens");
  for (int32_t position = scheduled.first_token; position < scheduled.end_token(); ++position) {
    if (position >= scheduled.first_logit_row()) {
      batch.logit_rows.push_back(LogitRow::of_token(batch.num_tokens()));
    }
    if (sequence.is_pending(position)) {
      batch.pending.push_back({.token = batch.num_tokens(), .row = *sequence.pending_row()});
      batch.token_ids.push_back(kPendingToken);
    } else {
      batch.token_ids.push_back(sequence.token(position));
    }
    batch.positions.push_back(position);
    batch.slot_mapping.push_back(sequence.blocks().slot(position));
  }
  if (scheduled.saved_to) {
    batch.hidden_saves.push_back(
        {.token = batch.num_tokens() - 1, .slot = scheduled.saved_to->value}
    );
  }
  batch.cu_seqlens.push_back(batch.num_tokens());
  batch.context_lens.push_back(scheduled.end_token());
  for (const BlockId block : sequence.blocks().blocks()) batch.block_tables.push_back(block.value);
  batch.block_tables.resize(
      static_cast<size_t>(batch.num_sequences() * batch.max_blocks_per_sequence), 0
  );
}

}  // namespace

ForwardBatch build_forward_batch(const StepPlan& plan) {
  ForwardBatch batch;
  const auto num_tokens = static_cast<size_t>(plan.num_tokens);
  batch.token_ids.reserve(num_tokens);
  batch.positions.reserve(num_tokens);
  batch.slot_mapping.reserve(num_tokens);
  batch.logit_rows.reserve(static_cast<size_t>(plan.num_logit_rows));
  for (const BlockCopy& copy : plan.copies) {
    batch.block_copies.push_back({.from = copy.from.value, .to = copy.to.value});
  }
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    if (scheduled.resumed_from) continue;
    batch.max_blocks_per_sequence =
        std::max(batch.max_blocks_per_sequence, scheduled.sequence->blocks().num_blocks());
  }
  batch.cu_seqlens.push_back(0);
  for (const ScheduledSequence& scheduled : plan.scheduled) {
    if (scheduled.resumed_from) {
      CHECK(
          scheduled.num_tokens == 0 && scheduled.num_logit_rows == 1 && !scheduled.saved_to,
          "who resumes computes nothing but the logits of its last token"
      );
      batch.logit_rows.push_back(LogitRow::of_slot(scheduled.resumed_from->value));
    } else {
      append_sequence(scheduled, batch);
    }
  }
  return batch;
}

}  // namespace millrace
