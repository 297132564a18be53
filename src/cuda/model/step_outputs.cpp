#include "cuda/model/step_outputs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "sampling/draw.h"

namespace millrace::cuda {
namespace {

static_assert(kDrawLogprobsMax <= static_cast<int32_t>(kTopKMax));

constexpr int32_t kNoDraw = -1;

size_t num_top_max(const StepOutputs::Sizes& sizes) {
  return std::min(kTopKMax, sizes.vocab_size);
}

Result<void> take_pinned(size_t num_bytes, PinnedBuffer& target) {
  Result<PinnedBuffer> buffer = PinnedBuffer::allocate(num_bytes);
  if (!buffer) return buffer.error();
  target = *std::move(buffer);
  return {};
}

// The first `count` of T of a pinned buffer, as bytes.
template <class T>
std::span<std::byte> first_bytes(const PinnedBuffer& buffer, size_t count) {
  return std::as_writable_bytes(buffer.as<T>().first(count));
}

}  // namespace

size_t StepOutputs::num_bytes(const Sizes& sizes) {
  const size_t num_rows = sizes.num_rows_max;
  const size_t num_top = num_rows * num_top_max(sizes);
  const size_t num_scratch = top_k_scratch_bytes(num_rows, sizes.vocab_size, num_top_max(sizes));
  return DeviceArena::piece_bytes<DrawnRow>(num_rows) + DeviceArena::piece_bytes<float>(num_top) +
         DeviceArena::piece_bytes<int32_t>(num_top) + DeviceArena::piece_bytes<RowSum>(num_rows) +
         DeviceArena::piece_bytes<std::byte>(num_scratch);
}

Result<StepOutputs> StepOutputs::allocate(const Sizes& sizes) {
  Result<DeviceArena> memory = DeviceArena::allocate(num_bytes(sizes));
  if (!memory) return memory.error();
  const size_t num_rows = sizes.num_rows_max;
  const size_t num_top = num_rows * num_top_max(sizes);
  StepOutputs outputs;
  outputs.sizes_ = sizes;
  outputs.memory_ = *std::move(memory);
  outputs.drawn_ = outputs.memory_.take<DrawnRow>(num_rows);
  outputs.top_ = {
      .values = outputs.memory_.take<float>(num_top),
      .ids = outputs.memory_.take<int32_t>(num_top),
      .sums = outputs.memory_.take<RowSum>(num_rows)};
  outputs.scratch_ = outputs.memory_.take<std::byte>(
      top_k_scratch_bytes(num_rows, sizes.vocab_size, num_top_max(sizes))
  );
  for (size_t i = 0; i < kNumStepsMax; ++i) {
    Result<Step> step = Step::allocate(sizes);
    if (!step) return step.error();
    outputs.steps_.push_back(*std::move(step));
  }
  return outputs;
}

Result<StepOutputs::Step> StepOutputs::Step::allocate(const Sizes& sizes) {
  Result<Event> done = Event::create(EventKind::kUntimed);
  if (!done) return done.error();
  Step step(*std::move(done));
  const size_t num_rows = sizes.num_rows_max;
  const size_t num_top = num_rows * num_top_max(sizes);
  const std::pair<PinnedBuffer*, size_t> buffers[] = {
      {&step.logits, num_rows * sizes.vocab_size * sizeof(float)},
      {&step.drawn, num_rows * sizeof(DrawnRow)},
      {&step.values, num_top * sizeof(float)},
      {&step.ids, num_top * sizeof(int32_t)},
      {&step.sums, num_rows * sizeof(RowSum)},
  };
  for (const auto& [buffer, num_bytes] : buffers) {
    if (Result<void> taken = take_pinned(num_bytes, *buffer); !taken) return taken.error();
  }
  return step;
}

std::vector<TokenOfDraw> StepOutputs::draws_of(std::span<const PendingToken> pending) const {
  if (pending.empty()) return {};
  CHECK(num_collected_ > 0, "tokens of the batch before, where there is one");
  const Step& last = steps_[(num_collected_ - 1) % kNumStepsMax];
  std::vector<TokenOfDraw> tokens;
  for (const PendingToken& token : pending) {
    const auto row = static_cast<size_t>(token.row);
    CHECK(token.row >= 0 && row < last.draw_of_row.size(), "a row of the batch before");
    CHECK(last.draw_of_row[row] != kNoDraw, "a row that the batch before draws from");
    tokens.push_back({.token = token.token, .draw = last.draw_of_row[row]});
  }
  return tokens;
}

void StepOutputs::collect(
    StreamHandle stream, const ForwardBatch& batch, const StepView& step, const float* logits
) {
  CHECK(num_under_way() < kNumStepsMax, "no more steps are under way than there is memory for");
  Step& mine = steps_[num_collected_++ % kNumStepsMax];
  describe(batch, mine);
  draw(stream, step, logits, mine);
  find_top(stream, step, logits, mine);
  copy_logits(stream, logits, mine);
  mine.done.record(stream);
}

void StepOutputs::describe(const ForwardBatch& batch, Step& step) const {
  step.draw_of_row.assign(batch.logit_rows.size(), kNoDraw);
  step.logprobs.clear();
  step.tokens.clear();
  step.k = 0;
  for (size_t row = 0; row < batch.draws.size(); ++row) {
    const std::optional<DrawParams>& draw = batch.draws[row];
    if (!draw) continue;
    step.draw_of_row[row] = static_cast<int32_t>(step.logprobs.size());
    step.logprobs.push_back(draw->logprobs);
    if (!draw->logprobs) continue;
    const auto num_wanted = static_cast<size_t>(std::max(*draw->logprobs, 1));
    step.k = std::max(step.k, std::min(num_wanted, sizes_.vocab_size));
  }
  step.num_logits = (batch.logit_rows.size() - step.logprobs.size()) * sizes_.vocab_size;
}

void StepOutputs::draw(StreamHandle stream, const StepView& view, const float* logits, Step& step) {
  const size_t num_draws = view.shape.num_draws;
  if (num_draws == 0) return;
  draw_tokens(
      stream,
      {.logits = logits,
       .num_columns = sizes_.vocab_size,
       .rows = view.draws,
       .num_draws = num_draws,
       .drawn = drawn_}
  );
  copy_to_host(stream, first_bytes<DrawnRow>(step.drawn, num_draws), drawn_);
}

void StepOutputs::find_top(
    StreamHandle stream, const StepView& view, const float* logits, Step& step
) {
  const size_t num_rows = view.shape.num_logprob_rows;
  if (num_rows == 0) return;
  top_k(
      stream,
      {.logits = logits,
       .rows = view.logprob_rows,
       .num_rows = num_rows,
       .num_columns = sizes_.vocab_size,
       .k = step.k,
       .values = top_.values,
       .ids = top_.ids,
       .sums = top_.sums,
       .scratch = scratch_}
  );
  copy_to_host(stream, first_bytes<float>(step.values, num_rows * step.k), top_.values);
  copy_to_host(stream, first_bytes<int32_t>(step.ids, num_rows * step.k), top_.ids);
  copy_to_host(stream, first_bytes<RowSum>(step.sums, num_rows), top_.sums);
}

// Rows without a draw, neighbours in one copy.
void StepOutputs::copy_logits(StreamHandle stream, const float* logits, Step& step) const {
  const std::vector<int32_t>& rows = step.draw_of_row;
  std::span<float> rest = step.logits.as<float>();
  for (size_t begin = 0; begin < rows.size();) {
    size_t end = begin;
    while (end < rows.size() && rows[end] == kNoDraw) ++end;
    if (end > begin) {
      const size_t count = (end - begin) * sizes_.vocab_size;
      copy_to_host(
          stream, std::as_writable_bytes(rest.first(count)), logits + begin * sizes_.vocab_size
      );
      rest = rest.subspan(count);
    }
    begin = end + 1;  // the row at `end` is drawn from
  }
}

StepResult StepOutputs::wait() {
  CHECK(num_under_way() > 0, "a step to wait for");
  Step& step = steps_[num_waited_++ % kNumStepsMax];
  step.done.wait();
  take_tokens(step);
  return {.logits = step.logits.as<float>().first(step.num_logits), .drawn = step.tokens};
}

void StepOutputs::take_tokens(Step& step) const {
  const std::span<const DrawnRow> drawn = step.drawn.as<DrawnRow>();
  size_t logprob_row = 0;
  for (size_t i = 0; i < step.logprobs.size(); ++i) {
    std::optional<SampledToken>& token = step.tokens.emplace_back();
    if (drawn[i].id != DrawnRow::kNothing) token = {.id = drawn[i].id, .logprobs = {}};
    if (!step.logprobs[i]) continue;
    if (token) token->logprobs = logprobs_of(step, drawn[i], logprob_row, *step.logprobs[i]);
    ++logprob_row;
  }
}

// As Sampler::logprobs(), of the device's sums.
std::vector<TokenLogprob> StepOutputs::logprobs_of(
    const Step& step, const DrawnRow& drawn, size_t row, int32_t num_top
) const {
  const RowSum sum = step.sums.as<RowSum>()[row];
  const double normalizer =
      static_cast<double>(sum.maximum) + std::log(static_cast<double>(sum.sum));
  const auto logprob = [normalizer](float logit) {
    return static_cast<float>(static_cast<double>(logit) - normalizer);
  };
  std::vector<TokenLogprob> result = {{drawn.id, logprob(drawn.logit)}};
  const size_t count = std::min(static_cast<size_t>(num_top), step.k);
  const auto values = step.values.as<float>().subspan(row * step.k, count);
  const auto ids = step.ids.as<int32_t>().subspan(row * step.k, count);
  for (size_t i = 0; i < count; ++i) {
    if (ids[i] != drawn.id) result.push_back({ids[i], logprob(values[i])});
  }
  return result;
}

}  // namespace millrace::cuda
