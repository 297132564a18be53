// The datasets that read files: sharegpt, custom, sonnet, emulated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"
#include "base/test_folder.h"
#include "workload/test_tokenizer.h"

namespace millrace::bench {
namespace {

using ::testing::HasSubstr;

// A text of so many tokens of the tiny tokenizer.
std::string words(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += i == 0 ? "ba" : " de";
  return text;
}

json::value conversation(size_t num_question, size_t num_answer, const char* member) {
  return {
      {member,
       json::array{
           {{"from", "human"}, {"value", words(num_question)}},
           {{"from", "gpt"}, {"value", words(num_answer)}},
           {{"from", "human"}, {"value", "and a third turn that nobody reads"}}}}};
}

// Pairs at the edges of both rules; the lengths tell them apart.
std::string sharegpt_json() {
  json::array entries = {
      conversation(4, 10, "conversations"),
      conversation(3, 11, "conversations"),
      conversation(2, 2, "conversations"),
      conversation(1, 20, "conversations"),
      conversation(10, 3, "conversations"),
      conversation(11, 1, "conversations"),
      conversation(1024, 12, "conversations"),
      conversation(1025, 13, "conversations"),
      conversation(900, 1148, "conversations"),
      conversation(901, 1148, "conversations"),
      conversation(50, 60, "conversation"),
      {{"id", "none"}},
      {{"conversations", json::array{}}}};
  return json::serialize(entries);
}

using Lengths = std::set<std::pair<int64_t, int64_t>>;

Lengths lengths_of(const Dataset& dataset) {
  Lengths lengths;
  for (size_t i = 0; i < *dataset.size(); ++i) {
    const PlannedRequest request = must_plan(dataset, i).turns[0];
    lengths.emplace(request.num_prompt_tokens, request.num_output_tokens);
  }
  return lengths;
}

TEST(SharegptDataset, DropsByVllmsRule) {
  const TestFile file(sharegpt_json());
  DatasetOptions options{.name = "sharegpt", .path = file.path()};
  EXPECT_EQ(
      lengths_of(*must_make(options, tiny_codec())),
      (Lengths{{4, 10}, {1024, 12}, {900, 1148}, {50, 60}})
  );
  options.sharegpt_output_len = 2;  // then answers may be short, and long ones count as 2
  EXPECT_EQ(
      lengths_of(*must_make(options, tiny_codec())),
      (Lengths{{4, 2}, {10, 2}, {11, 2}, {1024, 2}, {900, 2}, {901, 2}, {50, 2}})
  );
}

TEST(SharegptDataset, DropsBySglangsRule) {
  const TestFile file(sharegpt_json());
  DatasetOptions options{.name = "sharegpt", .path = file.path(), .sharegpt_rule_vllm = false};
  EXPECT_EQ(
      lengths_of(*must_make(options, tiny_codec())),
      (Lengths{
          {4, 10},
          {3, 11},
          {2, 2},
          {10, 3},
          {1024, 12},
          {1025, 13},
          {900, 1148},
          {901, 1148},
          {50, 60}})
  );
  options.sharegpt_context_len = 110;
  EXPECT_EQ(
      lengths_of(*must_make(options, tiny_codec())),
      (Lengths{{4, 10}, {3, 11}, {2, 2}, {10, 3}, {50, 60}})
  );
  options.sharegpt_output_len = 3;
  EXPECT_THAT(refusal_of(options, tiny_codec()), HasSubstr("--sharegpt-output-len is 3"));
}

TEST(SharegptDataset, CountsWhatTheTokenizerAddsAsTheToolsDo) {
  const TestFile file(sharegpt_json());
  const auto dataset = must_make({.name = "sharegpt", .path = file.path()}, tiny_codec(true));
  EXPECT_EQ(lengths_of(*dataset), (Lengths{{5, 11}, {4, 12}, {11, 4}, {51, 61}}))
      << "1024 + 1 is too long, 3 + 1 is long enough";
  const auto as_ids = must_make(
      {.name = "sharegpt", .path = file.path(), .sends_token_ids = true}, tiny_codec(true)
  );
  const PlannedRequest request = must_plan(*as_ids, 0).turns[0];
  EXPECT_EQ(server_ids(*tiny_codec(true), request).size(), request.num_prompt_tokens);
}

TEST(SharegptDataset, IsShuffledBySeedAndDrawnFromAgainAsInVllm) {
  const TestFile file(sharegpt_json());
  const auto order = [&](uint64_t seed, bool is_vllm) {
    const auto dataset = must_make(
        {.name = "sharegpt",
         .path = file.path(),
         .num_sessions = 12,
         .seed = seed,
         .sharegpt_rule_vllm = is_vllm},
        tiny_codec()
    );
    std::vector<int64_t> lengths;
    for (size_t i = 0; i < *dataset->size(); ++i) {
      lengths.push_back(must_plan(*dataset, i).turns[0].num_prompt_tokens);
    }
    return lengths;
  };
  EXPECT_EQ(order(1, true), order(1, true));
  EXPECT_NE(order(1, true), order(2, true));
  EXPECT_EQ(order(1, true).size(), 12U);
  const std::vector<int64_t> kept = order(1, true);
  EXPECT_EQ(std::set<int64_t>(kept.begin(), kept.begin() + 4).size(), 4U) << "first each once";
  EXPECT_EQ(std::set<int64_t>(kept.begin(), kept.end()).size(), 4U);
  EXPECT_EQ(order(1, false).size(), 9U) << "SGLang's does not draw again";
}

TEST(SharegptDataset, StopsWhenItHasEnough) {
  const TestFile file(sharegpt_json());
  const auto dataset =
      must_make({.name = "sharegpt", .path = file.path(), .num_sessions = 2}, tiny_codec());
  EXPECT_EQ(dataset->size(), 2U);
}

TEST(SharegptDataset, SaysWhereAFileIsWrong) {
  const auto refusal = [](const std::string& content) {
    const TestFile file(content);
    return refusal_of({.name = "sharegpt", .path = file.path()}, tiny_codec());
  };
  EXPECT_THAT(refusal("{"), HasSubstr("not valid JSON at byte 1"));
  EXPECT_THAT(refusal("{}"), HasSubstr("expected a JSON array"));
  EXPECT_THAT(refusal("[]"), HasSubstr("no conversation is long and short enough"));
  EXPECT_THAT(
      refusal(R"([{}, {"conversations": [{"value": "a"}, {"value": 7}]}])"),
      HasSubstr("[1].conversations: expected turns with a string 'value'")
  );
  EXPECT_THAT(refusal(R"([7, [], "x", {"conversations": 3}])"), HasSubstr("no conversation"));
}

TEST(CustomDataset, ReadsWhatVllmOpenaiAndSglangWrite) {
  const TestFile file(
      "{\"prompt\": \"ba de\", \"output_tokens\": 10}\n"
      "\r\n"
      "{\"messages\": [{\"role\": \"system\", \"content\": \"hi\"}, {\"role\": \"user\", "
      "\"content\": [{\"type\": \"text\", \"text\": \"ba \"}, {\"type\": \"text\", \"text\": "
      "\"de\"}]}], \"max_tokens\": 4.0}\r\n"
      "{\"conversations\": [{\"content\": \"ba\"}, {\"content\": \"de ba de\"}]}\n"
      "{\"conversations\": [{\"value\": \"ba\"}, {\"value\": \"de\"}], \"output_tokens\": 9}"
  );
  const auto dataset = must_make({.name = "custom", .path = file.path()}, tiny_codec(true));
  ASSERT_EQ(dataset->size(), 4U);
  const PlannedRequest plain = must_plan(*dataset, 0).turns[0];
  EXPECT_EQ(text_of(plain), "ba de");
  EXPECT_EQ(plain.num_prompt_tokens, 3);
  EXPECT_EQ(plain.num_output_tokens, 10);
  const PlannedRequest chat = must_plan(*dataset, 1).turns[0];
  const auto& messages = std::get<std::vector<PlannedMessage>>(chat.prompt);
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[1].content, "ba de");
  EXPECT_EQ(chat.num_prompt_tokens, 3);
  EXPECT_EQ(chat.num_output_tokens, 4);
  EXPECT_EQ(text_of(must_plan(*dataset, 2).turns[0]), "ba");
  EXPECT_EQ(must_plan(*dataset, 2).turns[0].num_output_tokens, 3);
  EXPECT_EQ(must_plan(*dataset, 3).turns[0].num_output_tokens, 9);
}

TEST(CustomDataset, AnOptionWinsOverTheLineAndACodecIsNotNeeded) {
  const TestFile file("{\"prompt\": \"ba de\", \"output_tokens\": 10}\n{\"prompt\": \"x\"}");
  const auto dataset = must_make({.name = "custom", .path = file.path(), .output_len = 5}, nullptr);
  for (const size_t i : {0, 1}) {
    const PlannedRequest request = must_plan(*dataset, i).turns[0];
    EXPECT_EQ(request.num_output_tokens, 5);
    EXPECT_EQ(request.num_prompt_tokens, 0) << "not counted";
  }
}

TEST(CustomDataset, ColumnsThatNoRequestHasDoNoHarm) {
  const TestFile file(R"({"id": 7, "prompt": "ba", "output_tokens": 1, "stop": null})");
  EXPECT_EQ(must_make({.name = "custom", .path = file.path()}, nullptr)->size(), 1U);
}

TEST(CustomDataset, IsDrawnFromAgainWhereMoreAreAskedForThanThereAre) {
  const TestFile file(
      "{\"prompt\": \"ba\", \"output_tokens\": 1}\n{\"prompt\": \"de\", \"output_tokens\": 2}"
  );
  const auto dataset =
      must_make({.name = "custom", .path = file.path(), .num_sessions = 40}, tiny_codec());
  ASSERT_EQ(dataset->size(), 40U);
  EXPECT_EQ(text_of(must_plan(*dataset, 1).turns[0]), "de");
  int num_first = 0;
  for (size_t i = 2; i < 40; ++i) num_first += text_of(must_plan(*dataset, i).turns[0]) == "ba";
  EXPECT_GT(num_first, 5);
  EXPECT_LT(num_first, 33);
  const auto fewer =
      must_make({.name = "custom", .path = file.path(), .num_sessions = 1}, tiny_codec());
  EXPECT_EQ(fewer->size(), 1U);
}

TEST(CustomDataset, NamesTheFileAndTheLineThatIsWrong) {
  const std::string good = "{\"prompt\": \"ba\", \"output_tokens\": 1}\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"no JSON", ":3: not valid JSON at byte"},
      {"[1, 2]", ":3: expected a JSON object, found [1, 2]"},
      {"{}", ":3: expected a 'prompt', 'messages' or 'conversations'"},
      {R"({"prompt": 5, "output_tokens": 1})", ":3: 'prompt' is 5, expected a string"},
      {R"({"prompt": "a"})", ":3: no 'output_tokens'"},
      {R"({"prompt": "a", "output_tokens": 0})", ":3: no 'output_tokens' of 1 or more"},
      {R"({"prompt": "a", "output_tokens": -1})", ":3: 'output_tokens' is -1, expected"},
      {R"({"prompt": "a", "output_tokens": 1.5})", ":3: 'output_tokens' is 1.5"},
      {R"({"prompt": "a", "output_tokens": "many"})", ":3: 'output_tokens' is \"many\""},
      {R"({"prompt": "a", "output_tokens": 1e300})", ":3: 'output_tokens' is 1e"},
      {R"({"messages": []})", ":3: 'messages'"},
      {R"({"messages": [{"role": "user"}]})", ":3: a message needs a 'role' and a 'content'"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", "no text"},
      {R"({"messages": [{"role": "user", "content": null}]})", "neither a string nor a list"},
      // These once vanished without a word.
      {R"({"prompt": "a", "output_tokens": 1, "tools": []})", ":3: 'tools' is not sent"},
      {R"({"prompt": "a", "output_tokens": 1, "temperature": 1})", ":3: 'temperature' is not"},
      {R"({"messages": [{"role": "a", "content": "b", "tool_calls": [1]}]})",
       "'tool_calls' is not"},
      {R"({"conversations": [{"value": "a"}]})", ":3: 'conversations'"},
      {R"({"conversations": [{"value": "a"}, 3]})", ":3: a turn needs"}};
  for (const auto& [line, expected] : cases) {
    const TestFile file(good + "\n" + line + "\n" + good);
    const std::string refusal = refusal_of({.name = "custom", .path = file.path()}, tiny_codec());
    EXPECT_THAT(refusal, HasSubstr(file.path() + ":3: ")) << line;
    EXPECT_THAT(refusal, HasSubstr(expected)) << line;
    EXPECT_EQ(refusal.find('\n'), std::string::npos) << "one line: " << refusal;
  }
  const TestFile empty("\n \n");
  EXPECT_THAT(
      refusal_of({.name = "custom", .path = empty.path()}, tiny_codec()), HasSubstr("no requests")
  );
  const TestFile chat(R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 1})");
  EXPECT_THAT(
      refusal_of({.name = "custom", .path = chat.path(), .sends_token_ids = true}, tiny_codec()),
      HasSubstr("--tokenize-prompt")
  );
}

// Some bytes of `content` overwritten, cut out or doubled.
std::string damaged(std::string content, Rng& rng) {
  constexpr std::string_view kBytes = "{}[]\",:\\0-9e.n\n\r\t \xff\xc3";
  for (uint64_t i = 0; i <= rng.below(4); ++i) {
    const size_t at = rng.below(content.size());
    const size_t size = rng.below(8);
    switch (rng.below(3)) {
      case 0:
        content[at] = kBytes[rng.below(kBytes.size())];
        break;
      case 1:
        content.erase(at, size);
        break;
      default:
        content.insert(at, content.substr(rng.below(content.size()), size));
    }
    if (content.empty()) content.push_back('{');
  }
  return content;
}

TEST(FileDatasets, SurviveDamagedFiles) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"sharegpt",
       R"([{"conversations": [{"value": "ba de ba de ba"}, {"value": "ba de ba de ba"}]}])"},
      {"custom",
       "{\"prompt\": \"ba\", \"output_tokens\": 10}\n{\"conversations\": [{\"value\": \"ba\"}, "
       "{\"value\": \"de\"}]}\n{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": "
       "\"text\", \"text\": \"ba\"}]}], \"max_tokens\": 4}"},
      {"mooncake",
       R"({"timestamp": 10, "input_length": 600, "output_length": 8, "hash_ids": [1, 2]})"},
      {"timed_trace", R"({"timestamp": 10, "input_length": 20, "output_length": 8})"},
      {"burstgpt",
       "Timestamp,Model,Request tokens,Response tokens\n1,GPT-4,20,30\n2.5,GPT-4,21,31\n"}};
  const auto codec = tiny_codec();
  Rng rng(1);
  int num_read = 0, num_refused = 0;
  for (const auto& [name, content] : files) {
    for (int round = 0; round < 400; ++round) {
      const TestFile file(damaged(content, rng));
      Result<std::unique_ptr<Dataset>> made =
          make_dataset({.name = name, .path = file.path()}, codec);
      ++(made ? num_read : num_refused);
      if (!made) {
        EXPECT_FALSE(made.error().message.empty());
      }
      for (size_t i = 0; made && i < std::min<size_t>(*(*made)->size(), 3); ++i) {
        must_plan(**made, i);
      }
    }
  }
  EXPECT_GT(num_read, 100);
  EXPECT_GT(num_refused, 500);
}

std::string long_text() {
  std::string text;
  for (int i = 0; i < 500; ++i) text += fmt::format("ba{} de hihi, mo.\n", i);
  return text;
}

TEST(EmulatedDataset, SlicesTheTextToTheTokensAskedFor) {
  const TestFile file(long_text());
  for (const bool adds_begin : {false, true}) {
    const auto codec = tiny_codec(adds_begin);
    const auto dataset = must_make(
        {.name = "emulated", .path = file.path(), .input_len = 100, .output_len = 128}, codec
    );
    std::set<std::string> texts;
    for (size_t i = 0; i < 30; ++i) {
      const PlannedRequest request = must_plan(*dataset, i).turns[0];
      EXPECT_EQ(server_ids(*codec, request).size(), 100U);
      EXPECT_EQ(request.num_prompt_tokens, 100);
      EXPECT_EQ(request.num_output_tokens, 128);
      EXPECT_THAT(text_of(request), HasSubstr(" de hihi, mo.\n"));
      texts.insert(text_of(request));
    }
    EXPECT_GT(texts.size(), 20U);
  }
}

TEST(EmulatedDataset, BeginsAnewAtTheTextsEndAndUniquelyWithANonce) {
  const TestFile file("ba de mo");
  const auto codec = tiny_codec();
  std::set<std::vector<TokenId>> beginnings;
  for (const uint64_t nonce : {1, 2}) {
    const auto dataset = must_make(
        {.name = "synthetic_text",
         .path = file.path(),
         .nonce = nonce,
         .input_len = 200,
         .output_len = 1,
         .num_turns = 2},
        codec
    );
    for (size_t i = 0; i < 50; ++i) {
      for (const PlannedRequest& request : must_plan(*dataset, i).turns) {
        auto ids = server_ids(*codec, request);
        EXPECT_EQ(ids.size(), 200U);
        ids.resize(16);
        beginnings.insert(ids);
      }
    }
  }
  EXPECT_EQ(beginnings.size(), 200U);
}

TEST(EmulatedDataset, DrawsLengthsAsGuidellmDoes) {
  const auto codec = tiny_codec();
  const auto dataset = must_make(
      {.name = "emulated",
       .input_len = 100,
       .output_len = 50,
       .input_spread = {.stdev = 10, .min = {}, .max = 120},
       .output_spread = {.stdev = {}, .min = 40, .max = 60}},
      codec
  );
  double sum = 0.0;
  for (size_t i = 0; i < 500; ++i) {
    const PlannedRequest request = must_plan(*dataset, i).turns[0];
    EXPECT_EQ(server_ids(*codec, request).size(), request.num_prompt_tokens);
    EXPECT_LE(request.num_prompt_tokens, 120);
    EXPECT_GE(request.num_output_tokens, 40);
    EXPECT_LE(request.num_output_tokens, 60);
    sum += static_cast<double>(request.num_prompt_tokens);
  }
  EXPECT_NEAR(sum / 500, 100.0, 2.0);
}

TEST(SonnetDataset, BeginsWithTheCommonLinesAndStaysWithinItsLength) {
  std::string poem;
  for (int i = 0; i < 100; ++i) poem += fmt::format("ba de hi {}\n", i);
  const TestFile file(poem);
  const auto codec = tiny_codec(true);
  const auto dataset = must_make(
      {.name = "sonnet",
       .path = file.path(),
       .input_len = 300,
       .output_len = 20,
       .prefix_len = 150},
      codec
  );
  std::vector<std::vector<TokenId>> prompts;
  for (size_t i = 0; i < 20; ++i) {
    const PlannedRequest request = must_plan(*dataset, i).turns[0];
    EXPECT_TRUE(text_of(request).starts_with(
        "Pick as many lines as you can from these poem lines:\nba de hi 0\nba de hi 1\n"
    ));
    prompts.push_back(server_ids(*codec, request));
    EXPECT_EQ(prompts.back().size(), static_cast<size_t>(request.num_prompt_tokens));
    EXPECT_LE(prompts.back().size(), 300U);
    EXPECT_GE(prompts.back().size(), 270U);
    EXPECT_EQ(request.num_output_tokens, 20);
  }
  for (size_t i = 1; i < 20; ++i) {
    EXPECT_GE(num_shared(prompts[0], prompts[i]), 140U);
    EXPECT_LT(num_shared(prompts[0], prompts[i]), 200U);
  }
  EXPECT_THAT(
      refusal_of({.name = "sonnet", .path = file.path(), .input_len = 20}, codec),
      HasSubstr("--input-len")
  );
  EXPECT_THAT(
      refusal_of(
          {.name = "sonnet", .path = file.path(), .input_len = 100, .prefix_len = 101}, codec
      ),
      HasSubstr("--random-prefix-len")
  );
}

}  // namespace
}  // namespace millrace::bench
