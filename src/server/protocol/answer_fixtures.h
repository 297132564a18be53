// For tests of answers: requests, results and the events of a stream.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/byte_tokenizer.h"
#include "server/protocol/answer_writer.h"

namespace millrace {

inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

inline GenerationRequest request_of(Api api, std::vector<PromptInput> prompts = {"Hi"}) {
  GenerationRequest request;
  request.api = api;
  request.model = "m";
  request.prompts = std::move(prompts);
  return request;
}

inline AnswerIdentity test_identity() {
  return {.id = "x-1", .created_s = 1700000000, .system_fingerprint = "fp"};
}

// One token for each byte, without logprobs.
inline std::vector<SampledToken> tokens_of(std::string_view bytes) {
  std::vector<SampledToken> tokens;
  for (const char byte : bytes) {
    tokens.push_back({.id = static_cast<unsigned char>(byte), .logprobs = {}});
  }
  return tokens;
}

inline SampledToken logged_token(TokenId id, std::vector<TokenLogprob> logprobs) {
  return {.id = id, .logprobs = std::move(logprobs)};
}

inline PromptResult prompt_result(std::vector<TokenId> prompt) {
  PromptResult result;
  result.prompt = std::move(prompt);
  return result;
}

// A result of one prompt, "Hi", with one choice, whose tokens stand one character apart.
inline GenerationResult result_of(std::string text, std::vector<SampledToken> tokens) {
  GenerationResult result;
  result.usage = {
      .num_prompt_tokens = 2,
      .num_cached_tokens = 1,
      .num_output_tokens = static_cast<int64_t>(tokens.size()),
  };
  result.prompts = {prompt_result({'H', 'i'})};
  ChoiceResult choice;
  choice.text = std::move(text);
  choice.tokens = std::move(tokens);
  choice.text_offsets.resize(choice.tokens.size());
  std::iota(choice.text_offsets.begin(), choice.text_offsets.end(), 0);
  result.prompts.front().choices.push_back(std::move(choice));
  return result;
}

// 2 of 3 prompt tokens cached, 5 output tokens: 1 ms queued, 4 ms to the first token, 8 ms more.
inline SequenceTimings test_timings() {
  const TimePoint start;
  SequenceTimings timings;
  timings.arrival = start;
  timings.first_scheduled = start + std::chrono::milliseconds(1);
  timings.first_token = start + std::chrono::milliseconds(5);
  timings.last_token = start + std::chrono::milliseconds(13);
  timings.num_prompt_tokens = 3;
  timings.num_cached_tokens = 2;
  timings.num_output_tokens = 5;
  return timings;
}

inline std::string whole_of(const GenerationRequest& request, const GenerationResult& result) {
  const Tokenizer tokenizer = make_byte_tokenizer();
  return make_answer_writer(request, tokenizer, test_identity())->whole(result);
}

inline json::value parsed(std::string_view text) {
  const Result<json::value> value = parse_json(text);  // refuses a key that stands twice
  EXPECT_TRUE(value.ok()) << (value.ok() ? "" : value.error().message) << "\n" << text;
  return value.ok() ? *value : json::value();
}

// The data of each event, after checking that nothing else is there.
inline std::vector<std::string> events_of(std::string_view stream) {
  std::vector<std::string> events;
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    EXPECT_TRUE(stream.starts_with("data: ")) << stream;
    EXPECT_NE(end, stream.npos) << stream;
    if (!stream.starts_with("data: ") || end == stream.npos) break;
    events.emplace_back(stream.substr(6, end - 6));
    EXPECT_EQ(events.back().find_first_of("\r\n"), std::string::npos) << events.back();
    stream.remove_prefix(end + 2);
  }
  return events;
}

}  // namespace millrace
