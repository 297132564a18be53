// What wording an answer costs: one delta of a stream, and small whole answers.
#include <benchmark/benchmark.h>

#include "server/byte_tokenizer.h"
#include "server/protocol/answer_writer.h"

namespace millrace {
namespace {

GenerationRequest request_for(Api api) {
  GenerationRequest request;
  request.api = api;
  request.model = "HuggingFaceTB/SmolLM2-135M-Instruct";
  request.prompts = {std::vector<TokenId>(32, 65)};
  request.is_stream = true;
  request.include_usage = true;
  return request;
}

AnswerIdentity identity() {
  return {.id = "chatcmpl-0123456789abcdef01234567", .created_s = 1'700'000'000};
}

PromptResult prompt_of(const GenerationRequest& request) {
  PromptResult prompt;
  prompt.prompt = std::get<std::vector<TokenId>>(request.prompts.front());
  return prompt;
}

// Deltas of one token each, with the writer that they share. The buffer is emptied now and then, as
// a connection does once its bytes have left, and keeps its memory.
void measure_deltas(benchmark::State& state, const GenerationRequest& request, ChoiceDelta delta) {
  constexpr int kNumEvents = 512;
  const Tokenizer tokenizer = make_byte_tokenizer();
  const PromptResult prompt = prompt_of(request);
  size_t num_bytes = 0;
  for (auto _ : state) {
    const auto writer = make_answer_writer(request, tokenizer, identity());
    std::string out;
    writer->begin({&prompt, 1}, out);
    Usage usage = {.num_prompt_tokens = 32, .num_cached_tokens = 0, .num_output_tokens = 0};
    for (int i = 0; i < kNumEvents; ++i) {
      if (out.size() > 64 << 10) out.clear();
      const size_t before = out.size();
      ++usage.num_output_tokens;
      writer->delta(delta, usage, out);
      num_bytes += out.size() - before;
    }
    benchmark::DoNotOptimize(out);
  }
  state.SetItemsProcessed(state.iterations() * kNumEvents);
  state.SetBytesProcessed(static_cast<int64_t>(num_bytes));
}

const std::vector<SampledToken>& one_token() {
  static const std::vector<SampledToken> tokens = {
      {65, {{65, -0.25F}, {66, -1.5F}, {67, -2.75F}, {68, -3.125F}, {69, -4.0F}}},
  };
  return tokens;
}

void BM_PlainDelta(benchmark::State& state) {
  const auto request = request_for(static_cast<Api>(state.range(0)));
  measure_deltas(state, request, {.choice = 0, .text = " Paris", .tokens = one_token()});
}
BENCHMARK(BM_PlainDelta)->ArgName("api")->DenseRange(0, 2);

void BM_DeltaWithUsageSoFar(benchmark::State& state) {
  auto request = request_for(static_cast<Api>(state.range(0)));
  request.continuous_usage_stats = true;
  measure_deltas(state, request, {.choice = 0, .text = " Paris", .tokens = one_token()});
}
BENCHMARK(BM_DeltaWithUsageSoFar)->ArgName("api")->DenseRange(0, 1);

void BM_DeltaWithLogprobs(benchmark::State& state) {
  auto request = request_for(static_cast<Api>(state.range(0)));
  request.fields.sampling.logprobs = 5;
  const int64_t offset = 12;
  measure_deltas(
      state,
      request,
      {.choice = 0, .text = "A", .tokens = one_token(), .text_offsets = {&offset, 1}}
  );
}
BENCHMARK(BM_DeltaWithLogprobs)->ArgName("api")->DenseRange(0, 1);

// With the writer itself: one for each call.
void BM_WholeAnswer(benchmark::State& state) {
  const Tokenizer tokenizer = make_byte_tokenizer();
  auto request = request_for(static_cast<Api>(state.range(0)));
  request.is_stream = false;
  GenerationResult result;
  result.prompts = {prompt_of(request)};
  ChoiceResult choice;
  choice.text = "The capital of France is Paris, and it has been for a long time.\n";
  choice.tokens.assign(16, SampledToken{.id = 65, .logprobs = {}});
  result.prompts.front().choices = {choice};
  for (auto _ : state) {
    benchmark::DoNotOptimize(make_answer_writer(request, tokenizer, identity())->whole(result));
  }
}
BENCHMARK(BM_WholeAnswer)->ArgName("api")->DenseRange(0, 2);

}  // namespace
}  // namespace millrace
