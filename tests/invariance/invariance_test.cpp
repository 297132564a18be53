// One result however it is computed: the same tokens and logprobs, bit for bit, alone, in a batch,
// in chunks of any size, preempted and computed again, out of the prefix cache, with other blocks
// and on other threads, after a restart. Here through everything that a server runs; mix_test.cpp
// has the many random mixes.
#include <gtest/gtest.h>

#include <span>

#include "base/rng.h"
#include "real_models.h"
#include "server/prompt.h"

namespace millrace {
namespace {

// A mix of what requests look like: short and long prompts, greedy and sampled, penalties, n.
std::vector<EngineRequest> mixed_requests(const ModelText& text, size_t count, int32_t num_tokens) {
  const std::vector<std::string> pieces = {
      "Once upon a time there was a little girl. ",
      "The dog saw a big red ball in the park. ",
      "\"I want to play,\" said Tom. ",
      "It was 12:30 on a sunny day, and ",
      "def f(x):\n    return x + 1\n",
      "Mom was sad. ",
  };
  Rng rng(2024);
  std::vector<EngineRequest> requests(count);
  for (size_t i = 0; i < count; ++i) {
    std::string prompt;
    const uint64_t num_pieces = i % 5 == 0 ? 14 + rng.below(8) : 1 + rng.below(3);
    for (uint64_t k = 0; k < num_pieces; ++k) prompt += pieces[rng.below(pieces.size())];
    SamplingParams& sampling = requests[i].sampling;
    requests[i].prompt = tokenize_text(text, prompt);
    sampling.max_tokens = num_tokens;
    sampling.ignore_eos = true;
    sampling.logprobs = 3;
    sampling.seed = 1000 + i;
    sampling.temperature = i % 3 == 0 ? 0.0F : 0.9F;
    if (i % 4 == 1) sampling.top_p = 0.9F;
    if (i % 4 == 2) sampling.top_k = 40;
    if (i % 6 == 3) sampling.frequency_penalty = 0.5F;
    if (i % 7 == 4) sampling.n = 2;
  }
  return requests;
}

void expect_equal(
    const std::vector<std::vector<Generated>>& expected,
    const std::vector<std::vector<Generated>>& actual,
    const std::string& how
) {
  ASSERT_EQ(expected.size(), actual.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(expected[i].size(), actual[i].size());
    for (size_t choice = 0; choice < expected[i].size(); ++choice) {
      EXPECT_TRUE(expected[i][choice] == actual[i][choice])
          << how << ": request " << i << ", choice " << choice << " differs";
    }
  }
}

constexpr NgramSpeculation kGuess = {
    .num_speculative_tokens = 5, .prompt_lookup_max = 3, .prompt_lookup_min = 1};

struct Way {
  const char* name;
  EngineSetup setup;
};

const Way kWays[] = {
    {"one batch", {}},
    {"one thread", {.num_threads = 1}},
    {"three threads", {.num_threads = 3}},
    {"chunks of 16", {.max_num_batched_tokens = 16, .max_num_seqs = 4}},
    {"chunks of 7",
     {.max_num_batched_tokens = 40, .long_prefill_token_threshold = 7, .max_num_seqs = 9}},
    {"blocks of 32", {.block_size = 32}},
    {"two at a time", {.max_num_batched_tokens = 64, .max_num_seqs = 2}},
    {"guessing", {.speculation = kGuess}},
    {"guessing in chunks of 16",
     {.max_num_batched_tokens = 16, .max_num_seqs = 4, .num_threads = 1, .speculation = kGuess}},
};

// The sum over all choices of what `count` says of each.
int32_t total(const std::vector<std::vector<Generated>>& results, int32_t Generated::*count) {
  int32_t sum = 0;
  for (const auto& choices : results) {
    for (const Generated& choice : choices) sum += choice.*count;
  }
  return sum;
}

// Each request with a salt of its own: none finds what another computed.
std::vector<EngineRequest> salted(std::vector<EngineRequest> requests) {
  for (size_t i = 0; i < requests.size(); ++i) requests[i].cache_salt = std::to_string(i);
  return requests;
}

// The prompts that were computed are found again, whole, until they are forgotten.
void check_prefix_cache(
    Engine& engine,
    const std::vector<EngineRequest>& requests,
    const std::vector<std::vector<Generated>>& alone
) {
  expect_equal(alone, generate_alone(engine, requests), "sharing prefixes");
  const auto repeated = generate_alone(engine, requests);
  expect_equal(alone, repeated, "repeated");
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(repeated[i][0].num_cached_tokens, std::ssize(requests[i].prompt)) << "request " << i;
  }
  engine.reset_prefix_cache();
  const std::vector<EngineRequest> first(requests.begin(), requests.begin() + 1);
  EXPECT_EQ(generate_alone(engine, first)[0][0].num_cached_tokens, 0);
  expect_equal(alone, generate_together(engine, requests), "forgotten");
}

struct ModelCase {
  std::string path;
  size_t num_requests = 0;
  int32_t num_tokens = 0;
  std::span<const Way> ways;
  EngineSetup tight;  // too little KV memory for all requests at once
};

void check_model(const ModelCase& model_case) {
  const LocalModel reference = load_model(model_case.path, {});
  const std::vector<EngineRequest> requests =
      mixed_requests(reference.text, model_case.num_requests, model_case.num_tokens);
  const auto alone = generate_alone(*reference.engine, salted(requests));
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(alone[i][0].num_cached_tokens, 0);
  check_prefix_cache(*reference.engine, requests, alone);
  for (const Way& way : model_case.ways) {
    const LocalModel model = load_model(model_case.path, way.setup);
    expect_equal(alone, generate_together(*model.engine, requests), way.name);
    if (way.setup.speculation) {
      EXPECT_GT(model.engine->stats().speculation.num_accepted_tokens, 0) << way.name;
    }
  }
  const LocalModel tight = load_model(model_case.path, model_case.tight);
  const auto preempted = generate_together(*tight.engine, requests);
  EXPECT_GT(total(preempted, &Generated::num_preemptions), 0)
      << "the pool was not tight: nothing was tested";
  expect_equal(alone, preempted, "preempted");

  EngineSetup guessing = model_case.tight;
  guessing.speculation = kGuess;
  const LocalModel tight_guessing = load_model(model_case.path, guessing);
  const auto preempted_guessing = generate_together(*tight_guessing.engine, requests);
  EXPECT_GT(total(preempted_guessing, &Generated::num_preemptions), 0);
  EXPECT_GT(tight_guessing.engine->stats().speculation.num_draft_tokens, 0);
  expect_equal(alone, preempted_guessing, "preempted and guessing");
}

TEST(Invariance, Stories260kGivesOneResultHoweverItIsComputed) {
  const std::optional<std::string> path = stories_path();
  if (!path) GTEST_SKIP() << "../shared/data/models/stories260k is missing";
  constexpr int64_t kBlockBytes = 20480 + 256;
  check_model({
      .path = *path,
      .num_requests = 40,
      .num_tokens = 40,
      .ways = kWays,
      .tight = {.kv_cache_bytes = 32 * kBlockBytes},
  });
}

// A larger model takes time: only what the small one cannot show.
TEST(Invariance, SmolLm2GivesOneResultHoweverItIsComputed) {
  const std::optional<std::string> path = smollm2_path();
  if (!path) GTEST_SKIP() << "the default model is missing: ./dev setup fetches it";
  constexpr int64_t kBlockBytes = 368640 + 2304;
  check_model({
      .path = *path,
      .num_requests = 4,
      .num_tokens = 34,
      .ways = std::span(kWays).subspan(4, 1),
      .tight = {.kv_cache_bytes = 16 * kBlockBytes, .max_model_len = 250},
  });
}

// Prompts that repeat themselves, so that guesses are right: greedy and sampled, with everything
// that looks at what was said before.
std::vector<EngineRequest> repetitive_requests(const ModelText& text, int32_t num_tokens) {
  const std::string lines[] = {
      "one two three four five six. one two three four five six. one two three",
      "Tom has a red ball. Sue has a red ball. Ben has a red ball. Ann has",
      "a b c d a b c d a b c d a b c d a b c d a b",
  };
  std::vector<EngineRequest> requests;
  for (size_t i = 0; i < 12; ++i) {
    EngineRequest request{.prompt = tokenize_text(text, lines[i % 3])};
    SamplingParams& sampling = request.sampling;
    sampling.max_tokens = num_tokens;
    sampling.ignore_eos = true;
    sampling.logprobs = 2;
    sampling.seed = i;
    sampling.temperature = i % 2 == 0 ? 0.0F : 0.7F;
    if (i == 3) sampling.n = 3;
    if (i == 4) sampling.repetition_penalty = 1.05F;
    if (i == 5) sampling.prompt_logprobs = 1;
    if (i == 6) sampling.frequency_penalty = 0.1F;
    if (i == 7) sampling.bad_words = {{request.prompt[2], request.prompt[3]}};
    if (i == 8) sampling.stop_token_ids = {request.prompt.back()};
    if (i == 9) sampling.min_tokens = num_tokens / 2;
    if (i == 9) sampling.stop_token_ids = {request.prompt[2]};
    requests.push_back(std::move(request));
  }
  return requests;
}

// `at_once`: how many sequences run at once in each engine that guesses.
void check_guesses(const std::string& path, int32_t num_tokens, std::span<const int32_t> at_once) {
  const LocalModel reference = load_model(path, {});
  const auto requests = repetitive_requests(reference.text, num_tokens);
  const auto expected = generate_together(*reference.engine, requests);
  reference.engine->shutdown(ShutdownMode::kDrain);
  for (const int32_t num_seqs : at_once) {
    const LocalModel model = load_model(path, {.max_num_seqs = num_seqs, .speculation = kGuess});
    expect_equal(expected, generate_together(*model.engine, requests), "guessing");
    model.engine->shutdown(ShutdownMode::kDrain);  // the last step is counted after its events
    const EngineStats stats = model.engine->stats();
    const SpeculationStats& speculation = stats.speculation;
    EXPECT_GT(speculation.num_accepted_tokens, 20) << "nothing was tested";
    EXPECT_GT(speculation.num_draft_tokens, speculation.num_accepted_tokens);
    EXPECT_EQ(stats.num_output_tokens, reference.engine->stats().num_output_tokens);
  }
}

TEST(Invariance, Stories260kSaysTheSameWhateverIsGuessed) {
  const std::optional<std::string> path = stories_path();
  if (!path) GTEST_SKIP() << "../shared/data/models/stories260k is missing";
  const int32_t at_once[] = {1, 3, 16};
  check_guesses(*path, 80, at_once);
}

TEST(Invariance, SmolLm2SaysTheSameWhateverIsGuessed) {
  const std::optional<std::string> path = smollm2_path();
  if (!path) GTEST_SKIP() << "the default model is missing: ./dev setup fetches it";
  const int32_t at_once[] = {4};
  check_guesses(*path, 16, at_once);
}

}  // namespace
}  // namespace millrace
