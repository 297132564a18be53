#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "workload/arrivals.h"
#include "workload/test_tokenizer.h"

namespace millrace::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using ::testing::HasSubstr;

constexpr const char* kMooncake =
    R"({"timestamp": 1000, "input_length": 1500, "output_length": 8, "hash_ids": [1, 2, 3]})"
    "\n"
    R"({"timestamp": 4000, "input_length": 1024, "output_length": 9, "hash_ids": [1, 2]})"
    "\n"
    R"({"timestamp": 2500, "input_length": 1100, "output_length": 10, "hash_ids": [1, 4, 5]})"
    "\n"
    R"({"timestamp": 2500, "input_length": 600, "output_length": 11, "hash_ids": [6, 2]})"
    "\n";

TEST(MooncakeDataset, EqualHashIdsGiveEqualBlocksOfTokens) {
  for (const bool adds_begin : {false, true}) {
    const auto codec = tiny_codec(adds_begin);
    const TestFile file(kMooncake);
    const auto dataset = must_make({.name = "mooncake", .path = file.path(), .nonce = 1}, codec);
    ASSERT_EQ(dataset->size(), 4U);
    std::vector<std::vector<TokenId>> prompts;  // in order of time: 1500, 1100, 600, 1024
    for (size_t i = 0; i < 4; ++i) {
      const PlannedRequest request = must_plan(*dataset, i).turns[0];
      prompts.push_back(server_ids(*codec, request));
      EXPECT_EQ(request.num_prompt_tokens, static_cast<int64_t>(prompts.back().size()));
    }
    EXPECT_EQ(prompts[0].size(), 1500U);
    EXPECT_EQ(prompts[1].size(), 1100U);
    EXPECT_EQ(prompts[2].size(), 600U);
    EXPECT_EQ(prompts[3].size(), 1024U);
    EXPECT_EQ(num_shared(prompts[0], prompts[3]), 1024U) << "[1, 2, 3] and [1, 2]";
    EXPECT_EQ(num_shared(prompts[0], prompts[1]) / 16, 32U) << "[1, 2, 3] and [1, 4, 5]";
    EXPECT_LT(num_shared(prompts[0], prompts[2]), 16U) << "[1, ...] and [6, ...]";
    const std::vector<TokenId> second(prompts[0].begin() + 512, prompts[0].begin() + 600);
    const std::vector<TokenId> behind_6(prompts[2].begin() + 512, prompts[2].end());
    EXPECT_EQ(second, behind_6) << "block 2 is the same wherever it stands";
  }
}

TEST(MooncakeDataset, RequestsAreDueAtTheTracesTimesFromItsFirst) {
  const TestFile file(kMooncake);
  DatasetOptions options{.name = "mooncake", .path = file.path()};
  const auto dataset = must_make(options, tiny_codec());
  const std::vector<milliseconds> due = {
      milliseconds(0), milliseconds(1500), milliseconds(1500), milliseconds(3000)};
  const std::vector<int64_t> num_output_tokens = {8, 10, 11, 9};
  options.mooncake_slowdown = 2.0;
  const auto slow = must_make(options, tiny_codec());
  for (size_t i = 0; i < 4; ++i) {
    const PlannedRequest request = must_plan(*dataset, i).turns[0];
    EXPECT_EQ(request.at, due[i]);
    EXPECT_EQ(request.num_output_tokens, num_output_tokens[i]);
    EXPECT_EQ(must_plan(*slow, i).turns[0].at, 2 * due[i]);
  }
}

TEST(MooncakeDataset, ANonceChangesAllBlocks) {
  const TestFile file(kMooncake);
  const auto codec = tiny_codec();
  const auto a = must_make({.name = "mooncake", .path = file.path(), .nonce = 1}, codec);
  const auto b = must_make({.name = "mooncake", .path = file.path(), .nonce = 2}, codec);
  const auto first = server_ids(*codec, must_plan(*a, 0).turns[0]);
  const auto again = server_ids(*codec, must_plan(*b, 0).turns[0]);
  for (const size_t begin : {0, 512, 1024}) {
    const auto at = static_cast<std::ptrdiff_t>(begin);
    EXPECT_FALSE(std::equal(first.begin() + at, first.begin() + at + 16, again.begin() + at));
  }
}

TEST(TimedTraceDataset, ReadsPromptsOrLengths) {
  const TestFile file(
      "{\"timestamp\": 10.5, \"prompt\": \"ba de\", \"output_length\": 3}\n"
      "{\"timestamp\": 10.25, \"input_length\": 40, \"output_length\": 4}\n"
      "{\"timestamp\": 11, \"input_length\": 40, \"output_length\": 4, \"hash_ids\": [7, 8, 9]}\n"
      "{\"timestamp\": 12, \"input_length\": 33, \"output_length\": 4, \"hash_ids\": [7, 8, 1]}\n"
  );
  const auto codec = tiny_codec(true);
  const auto dataset = must_make({.name = "timed_trace", .path = file.path()}, codec);
  const PlannedRequest made_up = must_plan(*dataset, 0).turns[0];
  EXPECT_EQ(server_ids(*codec, made_up).size(), 40U);
  EXPECT_EQ(made_up.at, nanoseconds(0));
  const PlannedRequest given = must_plan(*dataset, 1).turns[0];
  EXPECT_EQ(text_of(given), "ba de");
  EXPECT_EQ(given.num_prompt_tokens, 3);
  EXPECT_EQ(given.at, milliseconds(250));
  const auto third = server_ids(*codec, must_plan(*dataset, 2).turns[0]);
  const auto fourth = server_ids(*codec, must_plan(*dataset, 3).turns[0]);
  EXPECT_EQ(num_shared(third, fourth), 32U) << "blocks of 16";
  EXPECT_LT(num_shared(third, server_ids(*codec, made_up)), 16U);
}

TEST(TimedTraceDataset, TimesBeyondAllReasonAreCut) {
  const TestFile file(
      "{\"timestamp\": -1e300, \"input_length\": 4, \"output_length\": 3}\n"
      "{\"timestamp\": 1e300, \"input_length\": 4, \"output_length\": 3}\n"
  );
  const auto dataset = must_make({.name = "timed_trace", .path = file.path()}, tiny_codec());
  EXPECT_EQ(must_plan(*dataset, 1).turns[0].at, kArrivalMax);
}

TEST(TraceDatasets, NameTheFileAndTheLineThatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", ":2: not valid JSON"},
      {R"({"input_length": 5, "output_length": 5, "hash_ids": [1]})", ":2: 'timestamp' is missing"},
      {R"({"timestamp": "now", "input_length": 5, "output_length": 5, "hash_ids": [1]})",
       ":2: 'timestamp' is \"now\", expected a number"},
      {R"({"timestamp": 1, "output_length": 5, "hash_ids": [1]})", "'input_length' is missing"},
      {R"({"timestamp": 1, "input_length": 0, "output_length": 5, "hash_ids": []})",
       "'input_length' is 0, expected 1 or more"},
      {R"({"timestamp": 1, "input_length": 99999999999, "output_length": 5, "hash_ids": [1]})",
       "'input_length' is 99999999999"},
      {R"({"timestamp": 1, "input_length": 5, "hash_ids": [1]})", "'output_length' is missing"},
      {R"({"timestamp": 1, "input_length": 5, "output_length": 5})", "'hash_ids' has 0 ids"},
      {R"({"timestamp": 1, "input_length": 513, "output_length": 5, "hash_ids": [1]})",
       ":2: 'hash_ids' has 1 ids, expected 2 for 513 tokens in blocks of 512"},
      {R"({"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": [-1]})",
       "an id that is no whole number"},
      {R"({"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": 7})", "not a list"}};
  const std::string good =
      R"({"timestamp": 0, "input_length": 5, "output_length": 5, "hash_ids": [1]})";
  for (const auto& [line, expected] : cases) {
    const TestFile file(good + "\n" + line + "\n");
    const std::string refusal = refusal_of({.name = "mooncake", .path = file.path()}, tiny_codec());
    EXPECT_THAT(refusal, HasSubstr(file.path() + ":2: ")) << line;
    EXPECT_THAT(refusal, HasSubstr(expected)) << line;
  }
  const TestFile empty("");
  EXPECT_THAT(
      refusal_of({.name = "mooncake", .path = empty.path()}, tiny_codec()),
      HasSubstr("has no requests")
  );
  EXPECT_THAT(
      refusal_of(
          {.name = "mooncake", .path = empty.path(), .mooncake_slowdown = -1.0}, tiny_codec()
      ),
      HasSubstr("--mooncake-slowdown-factor")
  );
}

constexpr const char* kBurstgpt =
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\r\n"
    "5,ChatGPT,472,18,490,Conversation log\r\n"
    "45.5,GPT-4,30,12,42,Conversation log\r\n"
    "46,GPT-4,31,0,31,Conversation log\r\n"
    "50,GPT-4,32,13,45,API log\r\n"
    "60,GPT-4,33,14,47,API log\r\n";

TEST(BurstgptDataset, TakesTheAnsweredRowsOfGpt4) {
  const TestFile file(kBurstgpt);
  const auto codec = tiny_codec();
  const auto dataset = must_make({.name = "burstgpt", .path = file.path()}, codec);
  ASSERT_EQ(dataset->size(), 3U);
  const std::vector<milliseconds> due = {milliseconds(0), milliseconds(4500), milliseconds(14500)};
  const std::vector<int64_t> inputs = {30, 32, 33}, outputs = {12, 13, 14};
  for (size_t i = 0; i < 3; ++i) {
    const PlannedRequest request = must_plan(*dataset, i).turns[0];
    EXPECT_EQ(request.at, due[i]);
    EXPECT_EQ(server_ids(*codec, request).size(), static_cast<size_t>(inputs[i]));
    EXPECT_EQ(request.num_output_tokens, outputs[i]);
  }
  const auto two = must_make({.name = "burstgpt", .path = file.path(), .num_sessions = 2}, codec);
  EXPECT_EQ(two->size(), 2U);
  EXPECT_LT(*must_plan(*two, 0).turns[0].at, *must_plan(*two, 1).turns[0].at);
}

TEST(BurstgptDataset, NamesTheFileAndTheLineThatIsWrong) {
  const std::string head = "Timestamp,Model,Request tokens,Response tokens\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"Timestamp,Model\n", ":1: expected a column 'Request tokens'"},
      {head + "1,GPT-4,5\n", ":2: 3 cells, expected 4"},
      {head + "1,GPT-4,5,6\nnow,GPT-4,5,6\n", ":3: 'Timestamp' is 'now'"},
      {head + "nan,GPT-4,5,6\n", ":2: 'Timestamp' is 'nan'"},
      {head + "1,GPT-4,-5,6\n", ":2: 'Request tokens' is '-5'"},
      {head + "1,GPT-4,5,99999999999999999999\n", ":2: 'Response tokens' is"}};
  for (const auto& [content, expected] : cases) {
    const TestFile file(content);
    EXPECT_THAT(
        refusal_of({.name = "burstgpt", .path = file.path()}, tiny_codec()),
        HasSubstr(file.path() + expected)
    );
  }
}

}  // namespace
}  // namespace millrace::bench
