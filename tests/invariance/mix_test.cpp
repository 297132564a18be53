// Random mixes on random models of each family and on real ones. MILLRACE_LONG_TESTS=1 runs twenty
// times as many.
//
// That they notice was shown once by breaking, one at a time: the order of K in linear's sums for
// more than 8 rows; the order of the KV blocks in attention's sums of values for more than 8 rows;
// one layer's values left out of a block copy; the hidden state of the token before saved. Each
// failed every test of Mixes and Invariance, within the first two mixes. The greedy goldens noticed
// none of the first two: they are no substitute.
#include "mix.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>

#include "real_models.h"

namespace millrace {
namespace {

// A broken invariant aborts; the seed must come out all the same.
std::string g_under_way;
void say_seed_and_abort(int) {
  (void)!write(STDERR_FILENO, g_under_way.data(), g_under_way.size());
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

struct Suite {
  uint64_t num_mixes = 0;
  CatalogOptions catalog;
};

void run_mixes(TestModel& model, const Suite& suite, MixTotals& totals) {
  const uint64_t factor = std::getenv("MILLRACE_LONG_TESTS") == nullptr ? 1 : 20;
  const std::vector<CatalogEntry> catalog = make_catalog(model, suite.catalog);
  const auto previous = std::signal(SIGABRT, say_seed_and_abort);
  for (uint64_t seed = 0; seed < factor * suite.num_mixes; ++seed) {
    g_under_way = model.name() + ", mix " + std::to_string(seed) + "\n";
    SCOPED_TRACE(g_under_way);
    run_mix(model, catalog, seed, totals);
    if (testing::Test::HasFailure()) break;
  }
  std::signal(SIGABRT, previous);
}

using Happenings = std::initializer_list<std::pair<const char*, int64_t>>;

// The mixes are worth running only if all of this happens in them, and not once.
void expect_happened(const Happenings& happenings, int64_t times) {
  for (const auto& [what, count] : happenings) {
    EXPECT_GE(count, times) << what;
    std::string name = what;
    std::ranges::replace(name, ' ', '_');
    testing::Test::RecordProperty(name, std::to_string(count));
  }
}

void expect_reuse(const MixTotals& totals, int64_t times) {
  expect_happened(
      {
          {"complete", totals.num_complete},
          {"one of several choices", totals.num_of_several},
          {"cached", totals.num_cached},
          {"cached to within a block", totals.num_cached_in_block},
          {"chat turns cached with the answer before", totals.num_chat_turns},
          {"exact repeats resumed", totals.num_repeats_resumed},
          {"prompt logprobs", totals.num_prompt_logprobs},
          {"mixed batches", totals.num_mixed_batches},
          {"chunks", totals.num_chunks},
          {"block copies", totals.num_block_copies},
          {"states saved", totals.num_states_saved},
          {"batches without tokens", totals.num_batches_without_tokens},
          {"tokens guessed right", totals.num_guessed_right},
          {"tokens guessed wrong", totals.num_guessed_wrong},
      },
      times
  );
}

void expect_interruptions(const MixTotals& totals, int64_t times) {
  expect_happened(
      {{"cut short", totals.num_cut_short}, {"preempted", totals.num_preempted}}, times
  );
}

void check_family(ModelFamily family) {
  MixTotals totals;
  const WeightFormat formats[] = {
      {DType::kFloat32},
      {DType::kFloat16},
      {DType::kBFloat16},
      {DType::kBFloat16, QuantizedFormat::kInt8},
      {DType::kBFloat16, Quantization::w8a8()},
      {DType::kFloat16, QuantizedFormat::kInt4},
      {DType::kBFloat16, Quantization::stored()},
  };
  for (const WeightFormat& format : formats) {
    const std::unique_ptr<TestModel> model = make_tiny_model(family, format);
    run_mixes(
        *model,
        {.num_mixes = 50,
         .catalog =
             {.num_entries = 32,
              .num_prompt_tokens_max = 130,
              .num_output_tokens_max = 70,
              .seed = static_cast<uint64_t>(format.dtype)}},
        totals
    );
    if (testing::Test::HasFailure()) return;
  }
  expect_reuse(totals, 50);
  expect_interruptions(totals, 15);
}

TEST(Mixes, ATinyLlamaSaysTheSameInEveryMix) {
  check_family(ModelFamily::kLlama);
}

TEST(Mixes, ATinyQwen2SaysTheSameInEveryMix) {
  check_family(ModelFamily::kQwen2);
}

TEST(Mixes, ATinyQwen3SaysTheSameInEveryMix) {
  check_family(ModelFamily::kQwen3);
}

TEST(Mixes, Stories260kSaysTheSameInEveryMix) {
  const std::optional<std::string> path = stories_path();
  if (!path) GTEST_SKIP() << "../shared/data/models/stories260k is missing";
  MixTotals totals;
  run_mixes(
      *make_real_model(*path),
      {.num_mixes = 60,
       .catalog = {.num_entries = 24, .num_prompt_tokens_max = 130, .num_output_tokens_max = 70}},
      totals
  );
  expect_reuse(totals, 20);
  expect_interruptions(totals, 5);
}

TEST(Mixes, SmolLm2SaysTheSameInEveryMix) {
  const std::optional<std::string> path = smollm2_path();
  if (!path) GTEST_SKIP() << "the default model is missing: ./dev setup fetches it";
  MixTotals totals;
  run_mixes(
      *make_real_model(*path),
      {.num_mixes = 6,
       .catalog = {.num_entries = 12, .num_prompt_tokens_max = 60, .num_output_tokens_max = 6}},
      totals
  );
  // Six mixes are all there is time for, too few for everything that expect_reuse() wants to see;
  // guesses of this model are in Invariance.SmolLm2SaysTheSameWhateverIsGuessed.
  expect_happened(
      {{"complete", totals.num_complete},
       {"one of several choices", totals.num_of_several},
       {"cached", totals.num_cached},
       {"exact repeats resumed", totals.num_repeats_resumed},
       {"mixed batches", totals.num_mixed_batches},
       {"chunks", totals.num_chunks}},
      1
  );
}

}  // namespace
}  // namespace millrace
