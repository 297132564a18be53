// The datasets that make prompts up: random, random-ids, grid, shared prefixes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <thread>

#include "workload/lengths.h"
#include "workload/test_tokenizer.h"

namespace millrace::bench {
namespace {

using ::testing::HasSubstr;

// As a server's: each call is a round trip.
class RemoteCodec : public TokenCodec {
 public:
  explicit RemoteCodec(std::shared_ptr<const TokenCodec> codec) : codec_(std::move(codec)) {}
  Result<std::vector<TokenId>> encode(std::string_view text) const override {
    ++num_calls;
    if (fails) return Error{ErrorCode::kInternal, "the server is gone"};
    return codec_->encode(text);
  }
  Result<std::string> decode(std::span<const TokenId> ids) const override {
    ++num_calls;
    return codec_->decode(ids);
  }
  size_t vocab_size() const override { return codec_->vocab_size(); }
  bool is_reserved(TokenId id) const override { return codec_->is_reserved(id); }
  size_t num_added_tokens() const override { return codec_->num_added_tokens(); }

  mutable std::atomic<int> num_calls = 0;
  std::atomic<bool> fails = false;

 private:
  std::shared_ptr<const TokenCodec> codec_;
};

void expect_exact(const TokenCodec& codec, const PlannedRequest& request, int64_t num_tokens) {
  EXPECT_EQ(server_ids(codec, request).size(), static_cast<size_t>(num_tokens));
  EXPECT_EQ(request.num_prompt_tokens, num_tokens);
}

TEST(LocalCodec, EncodesWithoutTheAddedTokensAndCountsThem) {
  for (const bool adds_begin : {false, true}) {
    const auto codec = tiny_codec(adds_begin);
    EXPECT_EQ(codec->num_added_tokens(), adds_begin ? 1U : 0U);
    const Result<std::vector<TokenId>> ids = codec->encode("ba de hihi");
    ASSERT_TRUE(ids);
    EXPECT_EQ(ids->size(), 4U);
    const Result<std::string> text = codec->decode(*ids);
    ASSERT_TRUE(text);
    EXPECT_EQ(*text, "ba de hihi");
    EXPECT_EQ(codec->vocab_size(), 256U + 210U + 1U);
    EXPECT_TRUE(codec->is_reserved(466));
    EXPECT_TRUE(codec->is_reserved(467));
    EXPECT_TRUE(codec->is_reserved(-1));
    EXPECT_FALSE(codec->is_reserved(0));
  }
}

TEST(RandomDataset, PromptsHaveExactlyTheTokensAskedFor) {
  for (const bool adds_begin : {false, true}) {
    const auto codec = tiny_codec(adds_begin);
    for (const std::string name : {"random", "random-ids"}) {
      for (const int64_t length : {2, 3, 15, 16, 17, 128, 1000}) {
        DatasetOptions options{.name = name, .input_len = length, .output_len = 7};
        const auto dataset = must_make(options, codec);
        for (size_t i = 0; i < 20; ++i) {
          SCOPED_TRACE(fmt::format("{} {} [{}]", name, length, i));
          const PlannedSession session = must_plan(*dataset, i);
          ASSERT_EQ(session.turns.size(), 1U);
          expect_exact(*codec, session.turns[0], length);
          EXPECT_EQ(session.turns[0].num_output_tokens, 7);
        }
      }
    }
  }
}

TEST(RandomDataset, PromptsAreExactUnderPublishedTokenizers) {
  for (const std::string tokenizer :
       {"tokenizers/smollm2", "tokenizers/qwen3", "tokenizers/llama3.1", "models/stories260k"}) {
    const auto codec = published_codec(MILLRACE_SOURCE_DIR, tokenizer);
    if (codec == nullptr) GTEST_SKIP() << "needs the folder ../shared/data";
    for (const std::string name : {"random", "random-ids"}) {
      for (const bool sends_ids : {false, true}) {
        const DatasetOptions options{
            .name = name,
            .nonce = 5,
            .input_len = 513,
            .output_len = 9,
            .prefix_len = 32,
            .sends_token_ids = sends_ids};
        const auto dataset = must_make(options, codec);
        std::vector<std::vector<TokenId>> prompts;
        for (size_t i = 0; i < 20; ++i) {
          SCOPED_TRACE(fmt::format("{} {} [{}]", tokenizer, name, i));
          const PlannedRequest request = must_plan(*dataset, i).turns[0];
          expect_exact(*codec, request, 545);
          prompts.push_back(server_ids(*codec, request));
        }
        const size_t num_common = 32 + (sends_ids ? 0 : codec->num_added_tokens());
        for (size_t i = 1; i < prompts.size(); ++i) {
          const size_t shared = num_shared(prompts[0], prompts[i]);
          EXPECT_GE(shared, num_common) << tokenizer << " " << name;
          EXPECT_LT(shared, num_common + 16) << tokenizer << " " << name;
        }
      }
    }
  }
}

TEST(RandomDataset, IsAPureFunctionOfOptionsAndIndex) {
  const auto codec = tiny_codec();
  for (const std::string name : {"random", "random-ids", "generated-shared-prefix"}) {
    DatasetOptions options{.name = name, .seed = 3};
    if (name != "generated-shared-prefix") {
      options.input_len = 64;
      options.range_ratio = 0.5;
      options.range_ratio_mode = RangeRatioMode::kVllm;
    }
    const auto forwards = must_make(options, codec);
    const auto backwards = must_make(options, codec);
    std::vector<PlannedRequest> first, second(40);
    for (size_t i = 0; i < 40; ++i) first.push_back(must_plan(*forwards, i).turns[0]);
    {
      std::vector<std::jthread> threads;
      for (size_t t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
          for (size_t i = 40; i > 0; --i) {
            if (i % 4 == t) second[i - 1] = must_plan(*backwards, i - 1).turns[0];
          }
        });
      }
    }
    for (size_t i = 0; i < 40; ++i) {
      EXPECT_EQ(text_of(first[i]), text_of(second[i]));
      EXPECT_EQ(first[i].num_prompt_tokens, second[i].num_prompt_tokens);
      EXPECT_EQ(first[i].num_output_tokens, second[i].num_output_tokens);
    }
  }
}

TEST(RandomDataset, WithANonceNoTwoRequestsOrRunsBeginAlike) {
  const auto codec = tiny_codec(true);
  for (const std::string name : {"random", "random-ids"}) {
    for (const bool sends_ids : {false, true}) {
      std::set<std::vector<TokenId>> beginnings;
      for (const uint64_t nonce : {1, 2, 3}) {
        const auto dataset = must_make(
            {.name = name, .nonce = nonce, .input_len = 40, .sends_token_ids = sends_ids}, codec
        );
        for (size_t i = 0; i < 300; ++i) {
          std::vector<TokenId> ids = server_ids(*codec, must_plan(*dataset, i).turns[0]);
          ASSERT_EQ(ids.size(), 40U);
          ids.resize(16);
          beginnings.insert(ids);
        }
      }
      EXPECT_EQ(beginnings.size(), 900U) << name;
    }
  }
}

TEST(RandomDataset, ANonceChangesTextsButNotLengths) {
  const auto codec = tiny_codec();
  DatasetOptions options{
      .name = "random",
      .input_len = 100,
      .range_ratio = 0.9,
      .range_ratio_mode = RangeRatioMode::kVllm};
  const auto plain = must_make(options, codec);
  options.nonce = 77;
  const auto fresh = must_make(options, codec);
  for (size_t i = 0; i < 50; ++i) {
    const PlannedRequest a = must_plan(*plain, i).turns[0], b = must_plan(*fresh, i).turns[0];
    EXPECT_NE(text_of(a), text_of(b));
    EXPECT_EQ(a.num_prompt_tokens, b.num_prompt_tokens);
    EXPECT_EQ(a.num_output_tokens, b.num_output_tokens);
  }
}

TEST(RandomDataset, APrefixIsSharedByAllOfARunToTheToken) {
  const auto codec = tiny_codec(true);
  const auto dataset =
      must_make({.name = "random", .nonce = 4, .input_len = 50, .prefix_len = 33}, codec);
  const auto other =
      must_make({.name = "random", .nonce = 5, .input_len = 50, .prefix_len = 33}, codec);
  const auto first = server_ids(*codec, must_plan(*dataset, 0).turns[0]);
  EXPECT_EQ(first.size(), 83U);
  for (size_t i = 1; i < 20; ++i) {
    const auto ids = server_ids(*codec, must_plan(*dataset, i).turns[0]);
    EXPECT_GE(num_shared(first, ids), 34U);
    EXPECT_LT(num_shared(first, ids), 34U + 16U);
  }
  EXPECT_LT(num_shared(first, server_ids(*codec, must_plan(*other, 0).turns[0])), 16U);
}

TEST(RandomDataset, RandomIdsCountUpOverTheAllowedOnes) {
  const auto codec = tiny_codec();
  const auto dataset =
      must_make({.name = "random-ids", .input_len = 1000, .sends_token_ids = true}, codec);
  for (size_t i = 0; i < 5; ++i) {
    const auto ids = server_ids(*codec, must_plan(*dataset, i).turns[0]);
    for (size_t j = 1; j < ids.size(); ++j) {
      EXPECT_EQ(ids[j], (ids[j - 1] + 1) % 466) << j;  // 466 is special
    }
  }
}

TEST(RandomDataset, LengthsFollowVllmsRange) {
  const auto codec = tiny_codec(true);
  const auto dataset = must_make(
      {.name = "random",
       .input_len = 21,
       .output_len = 10,
       .range_ratio = 0.25,
       .range_ratio_mode = RangeRatioMode::kVllm},
      codec
  );
  std::map<int64_t, int> inputs, outputs;
  for (size_t i = 0; i < 4000; ++i) {
    const PlannedRequest request = must_plan(*dataset, i).turns[0];
    ++inputs[request.num_prompt_tokens];
    ++outputs[request.num_output_tokens];
  }
  // 20 own tokens: 15 to 25, and the one that is added.
  EXPECT_EQ(inputs.begin()->first, 16);
  EXPECT_EQ(inputs.rbegin()->first, 26);
  EXPECT_EQ(inputs.size(), 11U);
  EXPECT_EQ(outputs.begin()->first, 7);  // floor of 7.5
  EXPECT_EQ(outputs.rbegin()->first, 13);
  for (const auto& [length, count] : inputs) EXPECT_NEAR(count, 4000 / 11, 80) << length;
  for (const auto& [length, count] : outputs) EXPECT_NEAR(count, 4000 / 7, 100) << length;
}

TEST(RandomDataset, LengthsFollowSglangsRange) {
  const auto codec = tiny_codec();
  const auto dataset = must_make(
      {.name = "random",
       .input_len = 20,
       .output_len = 10,
       .range_ratio_mode = RangeRatioMode::kSglang},
      codec
  );
  double sum = 0.0;
  std::set<int64_t> inputs, outputs;
  for (size_t i = 0; i < 2000; ++i) {
    const PlannedRequest request = must_plan(*dataset, i).turns[0];
    inputs.insert(request.num_prompt_tokens);
    outputs.insert(request.num_output_tokens);
    sum += static_cast<double>(request.num_prompt_tokens);
  }
  EXPECT_EQ(*inputs.begin(), 1);  // ratio 0 is not a fixed length there
  EXPECT_EQ(*inputs.rbegin(), 20);
  EXPECT_EQ(*outputs.begin(), 1);
  EXPECT_EQ(*outputs.rbegin(), 10);
  EXPECT_NEAR(sum / 2000, 10.5, 0.5);
}

TEST(Lengths, FollowANormalDistributionCutAtItsBounds) {
  LengthAsk ask{.flag = "--input-len", .length = 100, .range_ratio_mode = {}};
  ask.spread = {.stdev = 10, .min = 85, .max = {}};
  const Result<LengthSampler> sampler = LengthSampler::make(ask);
  ASSERT_TRUE(sampler) << sampler.error().message;
  EXPECT_EQ(sampler->high(), 150);
  int below_mean = 0, at_bound = 0, within_one = 0;
  for (uint64_t key = 0; key < 20'000; ++key) {
    const int64_t length = sampler->draw(key);
    EXPECT_GE(length, 85);
    below_mean += length < 100;
    at_bound += length == 85;
    within_one += std::abs(length - 100) <= 10;
  }
  EXPECT_NEAR(below_mean / 20'000.0, 0.48, 0.02);  // 100 itself is not below
  EXPECT_NEAR(at_bound / 20'000.0, 0.0735, 0.01);  // all below 85.5
  EXPECT_NEAR(within_one / 20'000.0, 0.706, 0.02);
}

TEST(Lengths, AreUniformBetweenBoundsAlone) {
  LengthAsk ask{.flag = "--input-len", .length = 100, .range_ratio_mode = {}};
  ask.spread = {.stdev = {}, .min = 98, .max = 101};
  const Result<LengthSampler> sampler = LengthSampler::make(ask);
  ASSERT_TRUE(sampler);
  std::map<int64_t, int> counts;
  for (uint64_t key = 0; key < 4000; ++key) ++counts[sampler->draw(key)];
  ASSERT_EQ(counts.size(), 4U);
  for (const auto& [length, count] : counts) EXPECT_NEAR(count, 1000, 120) << length;
}

TEST(RandomDataset, LaterTurnsThinkAndAddTheirOwnTokens) {
  const auto codec = tiny_codec(true);
  const auto dataset = must_make(
      {.name = "random",
       .input_len = 30,
       .output_len = 5,
       .prefix_len = 8,
       .num_turns = 3,
       .think_time = std::chrono::seconds(2)},
      codec
  );
  const PlannedSession session = must_plan(*dataset, 0);
  ASSERT_EQ(session.turns.size(), 3U);
  EXPECT_EQ(session.turns[0].num_prompt_tokens, 38);
  EXPECT_EQ(session.turns[0].think_time.count(), 0);
  for (size_t turn = 1; turn < 3; ++turn) {
    const PlannedRequest& request = session.turns[turn];
    EXPECT_EQ(request.think_time, std::chrono::seconds(2));
    EXPECT_EQ(request.num_prompt_tokens, 30);
    const auto before = codec->encode(text_of(session.turns[0]));
    const auto together = codec->encode(text_of(session.turns[0]) + text_of(request));
    EXPECT_EQ(together->size(), before->size() + 30)
        << "does not grow together with what it follows";
  }
  EXPECT_NE(text_of(session.turns[1]), text_of(session.turns[2]));
}

TEST(RandomDataset, ManagesWithAVocabularyThatHasNoWords) {
  // No words: only bytes are tokens.
  std::string bytes = tiny_tokenizer_json();
  const size_t merges = bytes.find("\"merges\":[");
  ASSERT_NE(merges, std::string::npos);
  bytes = bytes.substr(0, merges) + "\"merges\":[]}}";
  Result<Tokenizer> tokenizer = Tokenizer::from_json(bytes);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const std::shared_ptr<const TokenCodec> wordless =
      make_local_codec(std::make_shared<const Tokenizer>(*std::move(tokenizer)));
  for (const std::string name : {"random", "random-ids"}) {
    const auto dataset = must_make({.name = name, .nonce = 1, .input_len = 50}, wordless);
    int num_exact = 0;
    for (size_t i = 0; i < 50; ++i) {
      const PlannedRequest request = must_plan(*dataset, i).turns[0];
      const size_t num_tokens = server_ids(*wordless, request).size();
      EXPECT_EQ(request.num_prompt_tokens, static_cast<int64_t>(num_tokens)) << "the true length";
      num_exact += num_tokens == 50;
    }
    EXPECT_EQ(num_exact, 50) << name;
  }
}

TEST(RandomDataset, AsksAServerForItsTokensOnlySomeTimes) {
  const auto local = published_codec(MILLRACE_SOURCE_DIR, "tokenizers/smollm2");
  if (local == nullptr) GTEST_SKIP() << "needs the folder ../shared/data";
  const auto remote = std::make_shared<RemoteCodec>(local);
  const auto dataset = must_make({.name = "random", .nonce = 1, .input_len = 256}, remote);
  EXPECT_LT(remote->num_calls, 60);
  remote->num_calls = 0;
  for (size_t i = 0; i < 20; ++i) expect_exact(*local, must_plan(*dataset, i).turns[0], 256);
  EXPECT_EQ(remote->num_calls, 20);
  remote->fails = true;
  const Result<PlannedSession> failed = dataset->session(3);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "the server is gone");
  EXPECT_EQ(refusal_of({.name = "random"}, remote), ": the server is gone");
}

constexpr std::pair<int64_t, int64_t> kGridCaseList[] = {
    {1024, 512}, {512, 0}, {1024, 1024}, {32, 0}, {1024, 1023}, {1024, 1}, {3, 0}, {2, 2}};
constexpr std::span<const std::pair<int64_t, int64_t>> kGridCases = kGridCaseList;

TEST(GridDataset, SharesExactlyTheTokensThatShallHit) {
  for (const std::string tokenizer :
       {"tiny", "tiny <s>", "tokenizers/smollm2", "tokenizers/qwen2.5", "models/stories260k"}) {
    const auto codec = tokenizer.starts_with("tiny")
                           ? tiny_codec(tokenizer == "tiny <s>")
                           : published_codec(MILLRACE_SOURCE_DIR, tokenizer);
    if (codec == nullptr) continue;  // needs ../shared/data
    // Looking for words in a large vocabulary takes its time.
    const auto cases = tokenizer.starts_with("tiny") ? kGridCases : kGridCases.first(3);
    for (const auto& [input, hit] : cases) {
      SCOPED_TRACE(fmt::format("{} I={} H={}", tokenizer, input, hit));
      const auto dataset = must_make(
          {.name = "grid", .nonce = 9, .input_len = input, .output_len = 32, .hit_len = hit}, codec
      );
      std::vector<std::vector<TokenId>> prompts;
      for (size_t i = 0; i < 6; ++i) {
        const PlannedRequest request = must_plan(*dataset, i).turns[0];
        expect_exact(*codec, request, input);
        EXPECT_EQ(request.num_output_tokens, 32);
        prompts.push_back(server_ids(*codec, request));
      }
      for (size_t i = 1; i < prompts.size(); ++i) {
        const size_t shared = num_shared(prompts[0], prompts[i]);
        EXPECT_GE(shared, static_cast<size_t>(hit));
        if (input - hit >= 16) {
          EXPECT_LT(shared, static_cast<size_t>(hit) + 16);
        }
        if (input == hit) {
          EXPECT_EQ(prompts[0], prompts[i]);
        }
      }
    }
  }
}

TEST(GridDataset, RepeatsHiAsThePublishedOneDoes) {
  const auto dataset =
      must_make({.name = "grid", .input_len = 64, .output_len = 1, .hit_len = 8}, tiny_codec());
  const std::string text = text_of(must_plan(*dataset, 0).turns[0]);
  EXPECT_TRUE(text.starts_with("hihihihihihihihi ")) << text;
  EXPECT_TRUE(text.ends_with(" hihihihihihihihihihihihihihihihi") || text.ends_with("hihihi"))
      << text;
}

TEST(SharedPrefixDataset, GroupsShareTheirSystemPromptToTheToken) {
  const auto codec = tiny_codec(true);
  const DatasetOptions options{
      .name = "generated-shared-prefix",
      .nonce = 3,
      .gsp_num_groups = 4,
      .gsp_prompts_per_group = 5,
      .gsp_system_prompt_len = 60,
      .gsp_question_len = 20,
      .gsp_output_len = 11,
      .gsp_is_ordered = true};
  const auto dataset = must_make(options, codec);
  ASSERT_EQ(dataset->size(), 20U);
  std::vector<std::vector<TokenId>> prompts;
  for (size_t i = 0; i < 20; ++i) {
    const PlannedRequest request = must_plan(*dataset, i).turns[0];
    expect_exact(*codec, request, 80);
    EXPECT_EQ(request.num_output_tokens, 11);
    prompts.push_back(server_ids(*codec, request));
  }
  for (size_t a = 0; a < 20; ++a) {
    for (size_t b = 0; b < a; ++b) {
      const size_t shared = num_shared(prompts[a], prompts[b]);
      if (a / 5 == b / 5) {
        EXPECT_GE(shared, 60U);
        EXPECT_LT(shared, 76U);
      } else {
        EXPECT_LT(shared, 16U);
      }
    }
  }
}

// How often each group comes, told by the beginning of the prompt.
std::map<std::vector<TokenId>, int> group_counts(const Dataset& dataset, const TokenCodec& codec) {
  std::map<std::vector<TokenId>, int> counts;
  for (size_t i = 0; i < *dataset.size(); ++i) {
    std::vector<TokenId> ids = server_ids(codec, must_plan(dataset, i).turns[0]);
    ids.resize(24);
    ++counts[ids];
  }
  return counts;
}

TEST(SharedPrefixDataset, MixesGroupsEvenlyOrByZipfsLaw) {
  const auto codec = tiny_codec();
  DatasetOptions options{
      .name = "gsp",
      .gsp_num_groups = 10,
      .gsp_prompts_per_group = 100,
      .gsp_system_prompt_len = 30,
      .gsp_question_len = 4};
  const auto even = must_make(options, codec);
  const auto even_counts = group_counts(*even, *codec);
  EXPECT_EQ(even_counts.size(), 10U);
  for (const auto& [ids, count] : even_counts) EXPECT_EQ(count, 100);
  size_t num_changes = 0;
  for (size_t i = 1; i < 1000; ++i) {
    const auto a = server_ids(*codec, must_plan(*even, i - 1).turns[0]);
    num_changes += num_shared(a, server_ids(*codec, must_plan(*even, i).turns[0])) < 24;
  }
  EXPECT_GT(num_changes, 800U) << "mixed: nine of ten neighbours are of other groups";

  options.gsp_zipf_alpha = 1.0;
  const auto zipf = must_make(options, codec);
  ASSERT_EQ(zipf->size(), 1000U);
  std::vector<int> counts;
  for (const auto& [ids, count] : group_counts(*zipf, *codec)) counts.push_back(count);
  std::sort(counts.rbegin(), counts.rend());
  ASSERT_EQ(counts.size(), 10U);
  const double harmonic = 2.928968;  // 1 + 1/2 + ... + 1/10
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_NEAR(counts[rank], 1000 / harmonic / static_cast<double>(rank + 1), 45) << rank;
  }
}

TEST(SharedPrefixDataset, AsksMoreInLaterTurns) {
  const auto codec = tiny_codec(true);
  const auto dataset = must_make(
      {.name = "gsp",
       .gsp_num_groups = 1,
       .gsp_prompts_per_group = 2,
       .gsp_system_prompt_len = 30,
       .gsp_question_len = 9,
       .gsp_num_turns = 3},
      codec
  );
  const PlannedSession session = must_plan(*dataset, 1);
  ASSERT_EQ(session.turns.size(), 3U);
  EXPECT_EQ(session.turns[0].num_prompt_tokens, 39);
  EXPECT_EQ(session.turns[1].num_prompt_tokens, 9);
  EXPECT_EQ(codec->encode(text_of(session.turns[2]))->size(), 9U);
}

TEST(SharedPrefixDataset, RepeatsPrefixesAsVllmDoes) {
  const auto codec = tiny_codec();
  const auto dataset = must_make(
      {.name = "prefix_repetition",
       .num_sessions = 25,
       .prefix_repetition_prefix_len = 24,
       .prefix_repetition_suffix_len = 8,
       .prefix_repetition_num_prefixes = 10},
      codec
  );
  EXPECT_EQ(dataset->size(), 20U);  // two for each; five are left over
  for (const auto& [ids, count] : group_counts(*dataset, *codec)) EXPECT_EQ(count, 2);
  expect_exact(*codec, must_plan(*dataset, 3).turns[0], 32);
}

TEST(Datasets, RefuseWhatIsOfNoUseOrMakesNoSenseByName) {
  const auto codec = tiny_codec(true);
  const std::vector<std::pair<DatasetOptions, std::string>> cases = {
      {{.name = "randon"}, "'randon' is not known, expected one of random, random-ids"},
      {{.name = "random", .path = "file"}, "--dataset-path is of no use to the dataset 'random'"},
      {{.name = "random", .hit_len = 3}, "--hit-len"},
      {{.name = "random", .gsp_num_turns = 2}, "--gsp-*"},
      {{.name = "random", .range_ratio = 0.5}, "--range-ratio-mode"},
      {{.name = "random", .range_ratio_mode = RangeRatioMode::kVllm},
       "--range-ratio-mode vllm needs"},
      {{.name = "random", .range_ratio = 1.0, .range_ratio_mode = RangeRatioMode::kVllm},
       "--random-range-ratio"},
      {{.name = "random", .range_ratio = -0.5, .range_ratio_mode = RangeRatioMode::kSglang},
       "--random-range-ratio"},
      {{.name = "random", .range_ratio = NAN, .range_ratio_mode = RangeRatioMode::kSglang},
       "--random-range-ratio"},
      {{.name = "random", .input_len = 1}, "--input-len is 1"},  // <s> alone is no prompt
      {{.name = "random", .input_len = -5}, "--input-len is -5"},
      {{.name = "random", .input_len = INT64_MAX}, "--input-len"},
      {{.name = "random", .output_len = 0}, "--output-len is 0"},
      {{.name = "random", .prefix_len = INT64_MAX}, "--random-prefix-len"},
      {{.name = "random", .prefix_len = -1}, "--random-prefix-len"},
      {{.name = "random", .num_turns = 0}, "--num-turns"},
      {{.name = "random", .think_time = std::chrono::nanoseconds(-1)}, "--think-time"},
      {{.name = "random", .think_time = std::chrono::seconds(1)},
       "--think-time lies between turns"},
      {{.name = "gsp", .think_time = std::chrono::seconds(1)}, "--think-time lies between turns"},
      {{.name = "grid", .input_len = 5}, "--output-len"},
      {{.name = "grid", .input_len = 5, .output_len = 5, .hit_len = 6},
       "--hit-len: the hit length"},
      {{.name = "grid", .input_len = 5, .output_len = 5, .prefix_len = 2}, "--random-prefix-len"},
      {{.name = "gsp", .input_len = 5}, "--input-len is of no use"},
      {{.name = "gsp", .gsp_num_groups = 0}, "--gsp-num-groups"},
      {{.name = "gsp", .gsp_num_groups = 1 << 20, .gsp_prompts_per_group = 1 << 20},
       "--gsp-num-groups"},
      {{.name = "gsp", .gsp_zipf_alpha = NAN}, "--gsp-zipf-alpha"},
      {{.name = "prefix_repetition"}, "--num-prompts"},
      {{.name = "sharegpt"}, "--dataset-path"},
      {{.name = "sharegpt", .path = "/nowhere/at/all"}, "/nowhere/at/all"}};
  for (const auto& [options, expected] : cases) {
    EXPECT_THAT(refusal_of(options, codec), HasSubstr(expected));
  }
  EXPECT_THAT(refusal_of({.name = "random"}, nullptr), HasSubstr("--tokenizer"));
}

}  // namespace
}  // namespace millrace::bench
