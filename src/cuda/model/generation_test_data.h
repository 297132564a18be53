// Generations for tests: step by step with the host's sampler, or with tokens drawn on the device
// and each step given before the last has ended. The two must be the same, token for token.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cuda/model/cuda_model_test_data.h"
#include "sampling/draw.h"

namespace millrace::cuda {

struct TestRequest {
  std::vector<TokenId> prompt;
  SamplingParams params;
  uint64_t seed = 0;
  std::optional<int32_t> slot = {};  // where its prompt's last state is kept, to draw from later
};

enum class Drive { kStepByStep, kAhead };

class TestGeneration {
 public:
  TestGeneration(ModelRunner& model, std::span<const TestRequest> requests) : model_(model) {
    std::vector<std::vector<TokenId>> whole;
    for (const TestRequest& request : requests) {
      whole.push_back(request.prompt);
      whole.back().resize(request.prompt.size() + static_cast<size_t>(request.params.max_tokens));
    }
    std::vector<TestSequence> sequences = make_sequences(model, whole, 3);
    for (size_t i = 0; i < requests.size(); ++i) {
      sequences[i].tokens = requests[i].prompt;
      running_.push_back({&requests[i], std::move(sequences[i])});
    }
  }

  // The answers, one of each request.
  std::vector<std::vector<SampledToken>> run(Drive drive) {
    drive_ = drive;
    while (launch_next() || !under_way_.empty()) {
      const size_t num_ahead = drive == Drive::kAhead && is_work_left() ? 1 : 0;
      while (under_way_.size() > num_ahead) finish();
    }
    std::vector<std::vector<SampledToken>> answers;
    for (Running& running : running_) answers.push_back(std::move(running.output));
    return answers;
  }

  size_t num_pending() const {
    return num_pending_;
  }  // tokens that nobody knew when they were sent

 private:
  struct Running {
    const TestRequest* request;
    TestSequence sequence;  // kPendingToken for those that are being drawn
    std::vector<SampledToken> output = {};
    int32_t num_rows = 0;         // of logits that were asked for
    int32_t pending_row = 0;      // of the last one, in its batch
    bool waits_for_host = false;  // the host chooses its next token
    bool is_saved = false;        // its state is in its slot, to be drawn from

    bool has_work() const { return !waits_for_host && num_rows < request->params.max_tokens; }
    SamplingInput input(std::span<const TokenId> generated) const {
      return {
          .params = request->params,
          .seed = request->seed,
          .prompt = request->prompt,
          .output = generated,
          .eos_token_ids = {}};
    }
    std::span<const TokenId> generated() const {
      return std::span(sequence.tokens).subspan(request->prompt.size());
    }
  };

  struct Row {
    Running* of;
    bool is_drawn;
  };

  bool is_work_left() const { return std::ranges::any_of(running_, &Running::has_work); }

  bool launch_next() {
    if (!is_work_left()) return false;
    std::vector<Row> rows;
    const ForwardBatch batch = next_batch(rows);
    num_pending_ += batch.pending.size();
    if (drive_ == Drive::kAhead) {
      model_.launch(batch);
    } else {
      logits_ = model_.forward(batch);
    }
    under_way_.push_back(std::move(rows));
    return true;
  }

  // Prompts seven tokens at a time, answers one.
  ForwardBatch next_batch(std::vector<Row>& rows) {
    std::vector<TestChunk> chunks;
    std::vector<Running*> of_chunks;
    std::vector<Running*> saved;
    for (Running& running : running_) {
      if (!running.has_work()) continue;
      if (running.is_saved) {
        saved.push_back(&running);
        continue;
      }
      chunks.push_back({&running.sequence, std::min(running.sequence.num_left(), 7)});
      of_chunks.push_back(&running);
    }
    ForwardBatch batch = make_batch(chunks, model_.block_size());
    batch.logit_rows.clear();
    for (size_t i = 0; i < chunks.size(); ++i) {
      Running& running = *of_chunks[i];
      const int32_t first = batch.cu_seqlens[i];
      const int32_t last = batch.cu_seqlens[i + 1] - 1;
      if (batch.token_ids[static_cast<size_t>(last)] == kPendingToken) {
        batch.pending.push_back({.token = first, .row = running.pending_row});
      }
      if (running.sequence.num_left() > 0) continue;
      if (running.request->slot && running.num_rows == 0) {
        batch.hidden_saves.push_back({.token = last, .slot = *running.request->slot});
        running.is_saved = true;
      } else {
        add_row(running, LogitRow::of_token(last), batch, rows);
      }
    }
    for (Running* running : saved) {
      add_row(*running, LogitRow::of_slot(*running->request->slot), batch, rows);
      running->is_saved = false;
    }
    return batch;
  }

  void add_row(Running& running, LogitRow row, ForwardBatch& batch, std::vector<Row>& rows) {
    running.pending_row = batch.num_logits();
    ++running.num_rows;
    batch.logit_rows.push_back(row);
    std::optional<DrawParams> draw;
    if (drive_ == Drive::kAhead) {
      draw = draw_params(running.input(running.generated()));
      batch.draws.push_back(draw);
    }
    running.waits_for_host = !draw;
    if (draw) running.sequence.tokens.push_back(kPendingToken);
    rows.push_back({&running, draw.has_value()});
  }

  void finish() {
    const StepResult result =
        drive_ == Drive::kAhead ? model_.wait() : StepResult{.logits = logits_, .drawn = {}};
    std::span<const float> logits = result.logits;
    std::span<const std::optional<SampledToken>> drawn = result.drawn;
    const auto vocab = static_cast<size_t>(model_.vocab_size());
    for (const Row& row : under_way_.front()) {
      Running& running = *row.of;
      if (row.is_drawn) {
        CHECK(drawn.front().has_value(), "finite logits");
        running.sequence.tokens[running.request->prompt.size() + running.output.size()] =
            drawn.front()->id;
        running.output.push_back(*drawn.front());
        drawn = drawn.subspan(1);
      } else {
        running.output.push_back(
            *sampler_.sample(logits.first(vocab), running.input(running.generated()))
        );
        running.sequence.tokens.push_back(running.output.back().id);
        running.waits_for_host = false;
        logits = logits.subspan(vocab);
      }
    }
    CHECK(logits.empty() && drawn.empty(), "a result for each row, and no more");
    under_way_.pop_front();
  }

  ModelRunner& model_;
  Drive drive_ = Drive::kStepByStep;
  std::vector<Running> running_;
  std::deque<std::vector<Row>> under_way_;
  std::span<const float> logits_;
  Sampler sampler_;
  size_t num_pending_ = 0;
};

// Greedy and sampled, with and without logprobs, some that the host must sample, and one that goes
// through a saved state; prompts of many lengths, so that chunks and decodes meet.
inline std::vector<TestRequest> mixed_requests() {
  std::vector<TestRequest> requests = {
      {.params = {.temperature = 0.0F}},
      {.params = {.temperature = 1.0F}},
      {.params = {.temperature = 0.8F, .top_k = 20, .top_p = 0.9F, .logprobs = 3}},
      {.params = {.temperature = 1.0F, .frequency_penalty = 1.5F}},
      {.params = {.temperature = 1.3F, .min_p = 0.05F, .logprobs = 0}, .slot = 1},
      {.params = {.temperature = 0.0F, .repetition_penalty = 1.3F, .logprobs = 2}},
      {.params = {.temperature = 2.0F, .top_p = 0.7F, .logprobs = 20}},
  };
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].prompt = random_tokens(3 + 9 * ((i * 5) % 7), 40 + i);
    requests[i].seed = 900 + i;
    requests[i].params.max_tokens = 12;
  }
  return requests;
}

}  // namespace millrace::cuda
