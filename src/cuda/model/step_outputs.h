// What comes back of a step: the tokens that the device drew, their logprobs, and rows of logits
// where nothing is to be drawn. Of up to two steps under way: each has host memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "cuda/event.h"
#include "cuda/kernels/draw.h"
#include "cuda/kernels/top_k.h"
#include "cuda/model/device_arena.h"
#include "cuda/model/step_inputs.h"
#include "cuda/pinned_buffer.h"
#include "model/model_runner.h"

namespace millrace::cuda {

// Belongs to the engine thread.
class StepOutputs {
 public:
  static constexpr size_t kNumStepsMax = 2;  // under way at once

  struct Sizes {
    size_t vocab_size = 0;
    size_t num_rows_max = 0;  // of logits, in a step
  };

  StepOutputs() = default;
  // kResourceExhausted: no memory, on the device or pinned.
  static Result<StepOutputs> allocate(const Sizes& sizes);
  static size_t num_bytes(const Sizes& sizes);  // on the device

  // Which draws of the step collected last decide the tokens.
  // REQUIRES: it drew from the rows that they name.
  std::vector<TokenOfDraw> draws_of(std::span<const PendingToken> pending) const;
  const DrawnRow* drawn() const { return drawn_; }  // device: of the step collected last

  // Draws, and copies what the host shall know, into the stream. `logits`: [num_logits,
  // vocab_size], device. REQUIRES: fewer than kNumStepsMax are under way.
  void collect(
      StreamHandle stream, const ForwardBatch& batch, const StepView& step, const float* logits
  );
  size_t num_under_way() const { return num_collected_ - num_waited_; }

  // The results of the first step under way, as ModelRunner::wait(). REQUIRES: there is one.
  StepResult wait();

 private:
  // What the most likely tokens of some rows are copied to, or from.
  struct TopRows {
    float* values = nullptr;  // [num_rows_max, num_top_max], the first [num_rows, k] used
    int32_t* ids = nullptr;   // the same
    RowSum* sums = nullptr;   // [num_rows_max]
  };

  struct Step {
    explicit Step(Event event) : done(std::move(event)) {}
    static Result<Step> allocate(const Sizes& sizes);

    Event done;
    PinnedBuffer logits;  // [num_rows_max, vocab_size]
    PinnedBuffer drawn;   // [num_rows_max]
    PinnedBuffer values;  // of TopRows
    PinnedBuffer ids;
    PinnedBuffer sums;
    size_t num_logits = 0;                         // values, of rows without a draw
    size_t k = 0;                                  // most likely tokens of each row that has some
    std::vector<int32_t> draw_of_row;              // [rows], -1: its logits are copied
    std::vector<std::optional<int32_t>> logprobs;  // [draws]
    std::vector<std::optional<SampledToken>> tokens;  // [draws], once waited for
  };

  void describe(const ForwardBatch& batch, Step& step) const;
  void draw(StreamHandle stream, const StepView& view, const float* logits, Step& step);
  void find_top(StreamHandle stream, const StepView& view, const float* logits, Step& step);
  void copy_logits(StreamHandle stream, const float* logits, Step& step) const;
  void take_tokens(Step& step) const;
  std::vector<TokenLogprob> logprobs_of(
      const Step& step, const DrawnRow& drawn, size_t row, int32_t num_top
  ) const;

  Sizes sizes_;
  DeviceArena memory_;
  DrawnRow* drawn_ = nullptr;  // [num_rows_max]
  TopRows top_;
  void* scratch_ = nullptr;  // of top_k()
  std::vector<Step> steps_;  // [kNumStepsMax], in turn
  size_t num_collected_ = 0;
  size_t num_waited_ = 0;
};

}  // namespace millrace::cuda
