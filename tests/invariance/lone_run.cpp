#include "lone_run.h"

#include <algorithm>

#include "base/math.h"

namespace millrace {
namespace {

// The logits of the last `num_logits` of tokens [begin, tokens.size()), whose predecessors were
// computed before. Blocks lie in the model's order.
std::vector<float> forward(
    CpuModel& model, std::span<const TokenId> tokens, size_t begin, size_t num_logits
) {
  ForwardBatch batch;
  for (size_t i = begin; i < tokens.size(); ++i) {
    batch.token_ids.push_back(tokens[i]);
    batch.positions.push_back(static_cast<int32_t>(i));
    batch.slot_mapping.push_back(static_cast<int32_t>(i));
    if (i + num_logits >= tokens.size()) {
      batch.logit_rows.push_back(LogitRow::of_token(static_cast<int32_t>(i - begin)));
    }
  }
  batch.cu_seqlens = {0, batch.num_tokens()};
  batch.context_lens = {static_cast<int32_t>(tokens.size())};
  batch.max_blocks_per_sequence = div_ceil(batch.context_lens[0], model.block_size());
  for (int32_t i = 0; i < batch.max_blocks_per_sequence; ++i) batch.block_tables.push_back(i);
  const std::span<const float> logits = model.forward(batch);
  return {logits.begin(), logits.end()};
}

bool contains(std::span<const TokenId> ids, TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// The tokens of one choice. `logits`: those of the prompt's last token.
LoneRun run_choice(
    CpuModel& model,
    const Request& request,
    int32_t choice,
    std::vector<float> logits,
    std::span<const TokenId> eos_token_ids
) {
  const SamplingParams& params = request.sampling;
  Sampler sampler;
  LoneRun run;
  std::vector<TokenId> tokens = request.prompt;
  while (true) {
    std::optional<SampledToken> token = sampler.sample(
        logits,
        {.params = params,
         .seed = request.seed,
         .choice = choice,
         .prompt = request.prompt,
         .output = run.record.tokens,
         .eos_token_ids = eos_token_ids}
    );
    CHECK(token.has_value(), "the requests of this suite leave a token to choose");
    run.record.tokens.push_back(token->id);
    run.record.logprobs.push_back(std::move(token->logprobs));
    const auto num_tokens = static_cast<int32_t>(run.record.tokens.size());
    const bool is_stop = contains(params.stop_token_ids, token->id) ||
                         (!params.ignore_eos && contains(eos_token_ids, token->id));
    if (is_stop && num_tokens >= params.min_tokens) {
      run.reason = FinishReason::kStop;
      return run;
    }
    if (num_tokens == params.max_tokens) return run;
    tokens.push_back(token->id);
    logits = forward(model, tokens, tokens.size() - 1, 1);
  }
}

}  // namespace

std::vector<LoneRun> run_alone(
    CpuModel& model, const Request& request, std::span<const TokenId> eos_token_ids
) {
  const std::optional<int32_t> num_top = request.sampling.prompt_logprobs;
  const size_t num_rows = num_top ? request.prompt.size() : 1;
  const std::vector<float> logits = forward(model, request.prompt, 0, num_rows);
  const auto vocab_size = static_cast<size_t>(model.vocab_size());
  const std::vector<float> last(logits.end() - model.vocab_size(), logits.end());
  std::vector<LoneRun> runs;
  // A choice writes over what the one before it computed behind the prompt.
  for (int32_t choice = 0; choice < request.sampling.n; ++choice) {
    runs.push_back(run_choice(model, request, choice, last, eos_token_ids));
  }
  for (size_t i = 1; i < num_rows; ++i) {
    const std::span<const float> row = std::span(logits).subspan((i - 1) * vocab_size, vocab_size);
    runs[0].record.prompt_logprobs.push_back(Sampler().logprobs(row, request.prompt[i], *num_top));
  }
  return runs;
}

}  // namespace millrace
