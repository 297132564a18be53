#include "server/protocol/completion_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/protocol/request_cases.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr Endpoint kC = Endpoint::kCompletions;
constexpr Endpoint kH = Endpoint::kChat;

// A JSON list of `count` times `entry`.
std::string list_of(size_t count, std::string_view entry) {
  std::string list = "[";
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) list += ',';
    list += entry;
  }
  return list + "]";
}

void expect_all(const std::vector<RequestCase>& cases) {
  for (const RequestCase& c : cases) EXPECT_EQ(fault_of(c), "");
}

// Fields that both endpoints have are refused alike by both.
void expect_both(const std::vector<RequestCase>& cases) {
  for (RequestCase c : cases) {
    c.endpoint = kC;
    EXPECT_EQ(fault_of(c), "") << "completions";
    c.endpoint = kH;
    EXPECT_EQ(fault_of(c), "") << "chat";
  }
}

GenerationRequest read(std::string_view body) {
  Result<GenerationRequest> request = read_completion_request(body, small_context());
  CHECK(request.ok(), request.error().message);
  return *std::move(request);
}

TEST(RequestFields, ModelsAreNamesAndNothingElse) {
  const std::string long_name = R"({"prompt": "x", "model": ")" + std::string(1 << 20, 'm') + "\"}";
  expect_all({
      {"C1", kC, R"({"prompt": "x"})"},
      {"C2", kC, R"({"prompt": "x", "model": null})"},
      {"C3", kC, R"({"prompt": "x", "model": ""})", 404, "model_not_found", "model"},
      {"C3", kC, R"({"prompt": "x", "model": "  "})", 404, "model_not_found", "model"},
      {"C4", kC, R"({"prompt": "x", "model": 7})", 400, "invalid_type", "model"},
      {"C4", kC, R"({"prompt": "x", "model": ["tiny"]})", 400, "invalid_type", "model"},
      {"C5", kC, R"({"prompt": "x", "model": "gpt-4o"})", 404, "model_not_found", "model"},
      {"C5", kC, R"({"prompt": "x", "model": "org/tiny"})"},
      {"C6", kC, R"({"prompt": "x", "model": "../tiny"})", 404, "model_not_found", "model"},
      {"C6", kC, R"({"prompt": "x", "model": "tiny\u0000"})", 404, "model_not_found", "model"},
      {"C6", kC, long_name, 404, "model_not_found", "model"},
      {"B24", kC, R"({"prompt": "x", "Model": "tiny"})", 400, "unknown_parameter", "Model"},
  });
}

TEST(RequestFields, CountsAndRangesOfSampling) {
  expect_both({
      {"C7", kC, R"("n": 0)", 400, "integer_below_min_value", "n"},
      {"C7", kC, R"("n": -1)", 400, "integer_below_min_value", "n"},
      {"C7", kC, R"("n": 128)"},
      {"C7", kC, R"("n": 129)", 400, "integer_above_max_value", "n"},
      {"C7", kC, R"("n": 1000000)", 400, "integer_above_max_value", "n"},
      {"C7", kC, R"("n": 2147483648)", 400, "integer_above_max_value", "n"},
      {"C7", kC, R"("n": 9007199254740992)", 400, "integer_above_max_value", "n"},
      {"C7", kC, R"("n": 9223372036854775808)", 400, "integer_above_max_value", "n"},
      {"C7", kC, R"("n": -9223372036854775808)", 400, "integer_below_min_value", "n"},
      {"C7", kC, R"("n": "2")", 400, "invalid_type", "n"},
      {"C7", kC, R"("n": 1.5)", 400, "invalid_type", "n"},
      {"C7", kC, R"("n": 1e400)", 400, "invalid_type", "n"},
      {"C7", kC, R"("n": true)", 400, "invalid_type", "n"},
      {"C7", kC, R"("n": [])", 400, "invalid_type", "n"},
      {"B10", kC, R"("n": 1.0)", 400, "invalid_type", "n"},
      {"C8", kC, R"("n": 3, "temperature": 0)"},
      {"C12", kC, R"("temperature": -0.1)", 400, "decimal_below_min_value", "temperature"},
      {"C12", kC, R"("temperature": 2.1)", 400, "decimal_above_max_value", "temperature"},
      {"C12", kC, R"("temperature": 1e400)", 400, "decimal_above_max_value", "temperature"},
      {"C12", kC, R"("temperature": -1e300)", 400, "decimal_below_min_value", "temperature"},
      {"C12", kC, R"("temperature": "NaN")", 400, "invalid_type", "temperature"},
      {"C12", kC, R"("temperature": "1")", 400, "invalid_type", "temperature"},
      {"C12", kC, R"("temperature": null)"},
      {"C12", kC, R"("temperature": 2)"},
      {"C13", kC, R"("top_p": 0)", 400, "decimal_below_min_value", "top_p"},
      {"C13", kC, R"("top_p": -0.1)", 400, "decimal_below_min_value", "top_p"},
      {"C13", kC, R"("top_p": 1.1)", 400, "decimal_above_max_value", "top_p"},
      {"C13", kC, R"("top_p": 1)"},
      {"C14", kC, R"("top_k": -2)", 400, "integer_below_min_value", "top_k"},
      {"C14", kC, R"("top_k": 1.5)", 400, "invalid_type", "top_k"},
      {"C14", kC, R"("top_k": 2147483648)", 400, "integer_above_max_value", "top_k"},
      {"C14", kC, R"("top_k": -1)"},
      {"C15", kC, R"("min_p": -0.1)", 400, "decimal_below_min_value", "min_p"},
      {"C15", kC, R"("min_p": 1.1)", 400, "decimal_above_max_value", "min_p"},
      {"C16", kC, R"("presence_penalty": 2.1)", 400, "decimal_above_max_value", "presence_penalty"},
      {"C16",
       kC,
       R"("presence_penalty": -2.1)",
       400,
       "decimal_below_min_value",
       "presence_penalty"},
      {"C17",
       kC,
       R"("frequency_penalty": 2.1)",
       400,
       "decimal_above_max_value",
       "frequency_penalty"},
      {"C17",
       kC,
       R"("frequency_penalty": -2.1)",
       400,
       "decimal_below_min_value",
       "frequency_penalty"},
      {"C18",
       kC,
       R"("repetition_penalty": 0)",
       400,
       "decimal_below_min_value",
       "repetition_penalty"},
      {"C18",
       kC,
       R"("repetition_penalty": -1)",
       400,
       "decimal_below_min_value",
       "repetition_penalty"},
      {"C18",
       kC,
       R"("repetition_penalty": 1e400)",
       400,
       "decimal_above_max_value",
       "repetition_penalty"},
      {"C19", kC, R"("max_tokens": 0)", 400, "integer_below_min_value", "max_tokens"},
      {"C19", kC, R"("max_tokens": -1)", 400, "integer_below_min_value", "max_tokens"},
      {"C19", kC, R"("max_tokens": 1.5)", 400, "invalid_type", "max_tokens"},
      {"C19", kC, R"("max_tokens": "16")", 400, "invalid_type", "max_tokens"},
      {"C19",
       kC,
       R"("max_tokens": 9223372036854775808)",
       400,
       "integer_above_max_value",
       "max_tokens"},
      {"C22", kC, R"("min_tokens": -1)", 400, "integer_below_min_value", "min_tokens"},
      {"C22",
       kC,
       R"("max_tokens": 4, "min_tokens": 5)",
       400,
       "integer_above_max_value",
       "min_tokens"},
      {"C23", kC, R"("seed": 9223372036854775808)", 400, "integer_above_max_value", "seed"},
      {"C23", kC, R"("seed": 9223372036854775807)"},
      {"C23", kC, R"("seed": -9223372036854775808)"},
      {"C23", kC, R"("seed": 1.5)", 400, "invalid_type", "seed"},
      {"C23", kC, R"("seed": "x")", 400, "invalid_type", "seed"},
  });
}

TEST(RequestFields, StopsAndTokenLists) {
  const std::string long_stop = R"("stop": [")" + std::string(1 << 20, 'x') + "\"]";
  expect_both({
      {"C24", kC, R"("stop": ["a", "b", "c", "d", "e"])"},
      {"C24", kC, R"("stop": )" + list_of(32, R"("s")")},
      {"C24", kC, R"("stop": )" + list_of(33, R"("s")"), 400, "array_above_max_length", "stop"},
      {"C24",
       kC,
       R"("stop": )" + list_of(100'000, R"("s")"),
       400,
       "array_above_max_length",
       "stop"},
      {"C24", kC, R"("stop": "")", 400, "string_below_min_length", "stop"},
      {"C24", kC, R"("stop": [""])", 400, "string_below_min_length", "stop[0]"},
      {"C24", kC, R"("stop": ["a", "b", 1])", 400, "invalid_type", "stop[2]"},
      {"C24", kC, R"("stop": {})", 400, "invalid_type", "stop"},
      {"C24", kC, R"("stop": [["a"]])", 400, "invalid_type", "stop[0]"},
      {"C24", kC, long_stop, 400, "string_above_max_length", "stop[0]"},
      {"C24", kC, R"("stop": [])"},
      {"B20", kC, R"("stop": "\u0000")"},
      {"C25", kC, R"("stop_token_ids": 5)", 400, "invalid_type", "stop_token_ids"},
      {"C25", kC, R"("stop_token_ids": [1.5])", 400, "invalid_type", "stop_token_ids[0]"},
      {"C25",
       kC,
       R"("stop_token_ids": [1, -1])",
       400,
       "integer_below_min_value",
       "stop_token_ids[1]"},
      {"C25", kC, R"("stop_token_ids": [999])"},
      {"C25",
       kC,
       R"("stop_token_ids": [1000])",
       400,
       "integer_above_max_value",
       "stop_token_ids[0]"},
      {"C25",
       kC,
       R"("stop_token_ids": [2147483648])",
       400,
       "integer_above_max_value",
       "stop_token_ids[0]"},
      {"C25",
       kC,
       R"("stop_token_ids": )" + list_of(1'000'000, "1"),
       400,
       "array_above_max_length",
       "stop_token_ids"},
      {"C26", kC, R"("logit_bias": [])", 400, "invalid_type", "logit_bias"},
      {"C26", kC, R"("logit_bias": {"a": 1})", 400, "invalid_value", "logit_bias.a"},
      {"C26", kC, R"("logit_bias": {"": 1})", 400, "invalid_value", "logit_bias."},
      {"C26", kC, R"("logit_bias": {"01": 1})", 400, "invalid_value", "logit_bias.01"},
      {"C26", kC, R"("logit_bias": {"999": 1})"},
      {"C26",
       kC,
       R"("logit_bias": {"1000": 1})",
       400,
       "integer_above_max_value",
       "logit_bias.1000"},
      {"C26", kC, R"("logit_bias": {"-1": 1})", 400, "integer_below_min_value", "logit_bias.-1"},
      {"C26", kC, R"("logit_bias": {"5": "x"})", 400, "invalid_type", "logit_bias.5"},
      {"C26", kC, R"("logit_bias": {"5": 101})", 400, "decimal_above_max_value", "logit_bias.5"},
      {"C32", kC, R"("allowed_token_ids": [])", 400, "array_below_min_length", "allowed_token_ids"},
      {"C32",
       kC,
       R"("allowed_token_ids": [1000])",
       400,
       "integer_above_max_value",
       "allowed_token_ids[0]"},
      {"C33", kC, R"("bad_words": [""])", 400, "string_below_min_length", "bad_words[0]"},
      {"C33",
       kC,
       R"("bad_words": )" + list_of(2000, R"("w")"),
       400,
       "array_above_max_length",
       "bad_words"},
      {"C33",
       kC,
       R"("bad_words": [")" + std::string(1 << 20, 'w') + "\"]",
       400,
       "string_above_max_length",
       "bad_words[0]"},
      {"C33",
       kC,
       R"("bad_words": [")" + std::string(500, 'w') + "\"]",
       400,
       "string_above_max_length",
       "bad_words[0]"},
      {"C33", kC, R"("bad_words": "w")", 400, "invalid_type", "bad_words"},
  });
  std::string many = R"("logit_bias": {)";
  for (int i = 0; i < 2000; ++i) many += fmt::format(R"({}"{}": 1)", i > 0 ? "," : "", i);
  expect_both({{"C26", kC, many + "}", 400, "object_above_max_properties", "logit_bias"}});
}

TEST(RequestFields, LogprobsSwitchesAndExtras) {
  expect_both({
      {"C29", kC, R"("prompt_logprobs": 21)", 400, "integer_above_max_value", "prompt_logprobs"},
      {"C30",
       kC,
       R"("prompt_logprobs": 1, "stream": true)",
       400,
       "invalid_value",
       "prompt_logprobs"},
      {"C30", kC, R"("prompt_logprobs": -2)", 400, "integer_below_min_value", "prompt_logprobs"},
      {"C30", kC, R"("prompt_logprobs": "x")", 400, "invalid_type", "prompt_logprobs"},
      {"C31", kC, R"("logprob_token_ids": [1])", 400, "unsupported_parameter", "logprob_token_ids"},
      {"C31", kC, R"("logprob_token_ids": [])", 400, "unsupported_parameter", "logprob_token_ids"},
      {"C34", kC, R"("ignore_eos": 123)", 400, "invalid_type", "ignore_eos"},
      {"C35", kC, R"("skip_special_tokens": "no")", 400, "invalid_type", "skip_special_tokens"},
      {"C35",
       kC,
       R"("spaces_between_special_tokens": 1)",
       400,
       "invalid_type",
       "spaces_between_special_tokens"},
      {"C36", kC, R"("stream": "yes")", 400, "invalid_type", "stream"},
      {"C36", kC, R"("stream": 1)", 400, "invalid_type", "stream"},
      {"C37",
       kC,
       R"("stream_options": {"include_usage": true})",
       400,
       "invalid_value",
       "stream_options"},
      {"C37",
       kC,
       R"("stream": false, "stream_options": {"include_usage": true})",
       400,
       "invalid_value",
       "stream_options"},
      {"C37", kC, R"("stream": false, "stream_options": null)"},
      {"C38", kC, R"("stream": true, "stream_options": [])", 400, "invalid_type", "stream_options"},
      {"C38",
       kC,
       R"("stream": true, "stream_options": {"usage": true})",
       400,
       "unknown_parameter",
       "stream_options.usage"},
      {"C39",
       kC,
       R"("stream": true, "stream_options": {"include_usage": 1})",
       400,
       "invalid_type",
       "stream_options.include_usage"},
      {"C39",
       kC,
       R"("stream": true, "stream_options": {"include_obfuscation": true})",
       400,
       "unsupported_parameter",
       "stream_options.include_obfuscation"},
      {"C39",
       kC,
       R"("stream": true, "stream_options": {"continuous_usage_stats": true})",
       400,
       "invalid_value",
       "stream_options.continuous_usage_stats"},
      {"C39", kC, R"("stream": true, "stream_options": {"continuous_usage_stats": false})"},
      {"C40", kC, R"("user": 5)", 400, "invalid_type", "user"},
      {"C40",
       kC,
       R"("user": ")" + std::string(1 << 20, 'u') + "\"",
       400,
       "string_above_max_length",
       "user"},
      {"C40", kC, R"("user": "me")"},
      {"C41", kC, R"("metadata": {"a": "b"})"},
      {"C41", kC, R"("metadata": {"a": 5})", 400, "invalid_type", "metadata.a"},
      {"C41",
       kC,
       R"("metadata": {"a": ")" + std::string(513, 'x') + "\"}",
       400,
       "string_above_max_length",
       "metadata.a"},
      {"C42", kC, R"("priority": 9223372036854775808)", 400, "integer_above_max_value", "priority"},
      {"C42", kC, R"("priority": 1)", 400, "unsupported_parameter", "priority"},
      {"C42", kC, R"("priority": 0)"},
      {"C43", kC, R"("cache_salt": "")", 400, "string_below_min_length", "cache_salt"},
      {"C43",
       kC,
       R"("cache_salt": ")" + std::string(1025, 's') + "\"",
       400,
       "string_above_max_length",
       "cache_salt"},
      {"C43", kC, R"("cache_salt": 5)", 400, "invalid_type", "cache_salt"},
      {"C44",
       kC,
       R"("truncate_prompt_tokens": -2)",
       400,
       "integer_below_min_value",
       "truncate_prompt_tokens"},
      {"C44", kC, R"("truncate_prompt_tokens": 0)", 400, "invalid_value", "truncate_prompt_tokens"},
      {"C44",
       kC,
       R"("truncate_prompt_tokens": 257)",
       400,
       "integer_above_max_value",
       "truncate_prompt_tokens"},
      {"C45", kC, R"("request_id": "a b")", 400, "invalid_value", "request_id"},
      {"C45", kC, R"("request_id": "a\r\nb")", 400, "invalid_value", "request_id"},
      {"C45", kC, R"("request_id": "")", 400, "invalid_value", "request_id"},
      {"C54",
       kC,
       R"("kv_transfer_params": {"remote_host": "10.0.0.1"})",
       400,
       "unsupported_parameter",
       "kv_transfer_params"},
      {"C55", kC, R"("timeout_s": 0)", 400, "decimal_below_min_value", "timeout_s"},
      {"C55", kC, R"("timeout_s": 1e9)", 400, "decimal_above_max_value", "timeout_s"},
      {"C56",
       kC,
       R"("thinking_token_budget": 5)",
       400,
       "unsupported_parameter",
       "thinking_token_budget"},
      {"C56", kC, R"("thinking_token_budget": -1)"},
      {"C56",
       kC,
       R"("repetition_detection": {})",
       400,
       "unsupported_parameter",
       "repetition_detection"},
      {"C57", kC, R"("stream_interval": 0)", 400, "integer_below_min_value", "stream_interval"},
      {"C57", kC, R"("stream_interval": 1)"},
      {"B23", kC, R"("temprature": 1)", 400, "unknown_parameter", "temprature"},
      {"B23", kC, R"("": 1)", 400, "unknown_parameter", ""},
  });
}

TEST(RequestFields, ConstraintsAreRefusedAndNeverDropped) {
  expect_both({
      {"C46",
       kC,
       R"("response_format": {})",
       400,
       "missing_required_parameter",
       "response_format.type"},
      {"C46",
       kC,
       R"("response_format": {"type": "xml"})",
       400,
       "invalid_value",
       "response_format.type"},
      {"C46", kC, R"("response_format": "json")", 400, "invalid_type", "response_format"},
      {"C46", kC, R"("response_format": [])", 400, "invalid_type", "response_format"},
      {"C46", kC, R"("response_format": {"type": "text"})"},
      {"C46", kC, R"("response_format": null)"},
      {"C47",
       kC,
       R"("response_format": {"type": "json_object"})",
       400,
       "unsupported_parameter",
       "response_format.type"},
      {"C47",
       kC,
       R"("response_format": {"type": "json_schema"})",
       400,
       "unsupported_parameter",
       "response_format.type"},
      {"C48",
       kC,
       R"("response_format": {"type": "text", "regex": "a"})",
       400,
       "invalid_value",
       "response_format"},
      {"C49", kC, R"("guided_choice": ["a", "b"])", 400, "unsupported_parameter", "guided_choice"},
      {"C50", kC, R"("guided_regex": "a+")", 400, "unsupported_parameter", "guided_regex"},
      {"C51",
       kC,
       R"("guided_grammar": "root ::= x")",
       400,
       "unsupported_parameter",
       "guided_grammar"},
      {"C51",
       kC,
       R"("structured_outputs": {"json": {}})",
       400,
       "unsupported_parameter",
       "structured_outputs"},
      {"C52", kC, R"("structural_tag": "x")", 400, "unsupported_parameter", "structural_tag"},
      {"C17", kC, R"("use_beam_search": true)", 400, "unsupported_parameter", "use_beam_search"},
      {"C17", kC, R"("length_penalty": 0.5)", 400, "unsupported_parameter", "length_penalty"},
      {"C17",
       kC,
       R"("logits_processors": ["x"])",
       400,
       "unsupported_parameter",
       "logits_processors"},
      {"C17", kC, R"("vllm_xargs": {"a": 1})", 400, "unsupported_parameter", "vllm_xargs"},
  });
}

TEST(RequestFields, WhatAsksForNothingIsAccepted) {
  expect_both({{"C", kC, R"(
    "use_beam_search": false, "length_penalty": 1.0, "logits_processors": [], "vllm_xargs": {},
    "guided_json": null, "guided_regex": null, "guided_choice": null, "guided_grammar": null,
    "structured_outputs": null, "kv_transfer_params": null, "logprob_token_ids": null,
    "store": false, "service_tier": "auto", "user": "someone", "metadata": {}, "priority": 0,
    "spaces_between_special_tokens": true, "truncation_side": "left", "return_token_offsets": false,
    "routed_experts_prompt_start": 0, "stream_interval": 1, "thinking_token_budget": null,
    "repetition_detection": null, "return_mm_kwargs": true, "session_id": "s", "watermarking": null,
    "safety_identifier": "h", "prompt_cache_key": "k", "n": null, "stop": null, "stream": null,
    "logprobs": null, "max_tokens": null, "seed": null, "logit_bias": null, "top_p": null,
    "stop_token_ids": null, "bad_words": null, "allowed_token_ids": null, "cache_salt": null,
    "request_id": null, "timeout_s": null, "echo": false, "mm_processor_kwargs": null
  )"}});
}

TEST(CompletionRequest, PromptsOfEveryKindAndNoOther) {
  const auto with = [](std::string_view prompt) {
    return fmt::format(R"({{"prompt": {}}})", prompt);
  };
  expect_all({
      {"D1", kC, "{}", 400, "missing_required_parameter", "prompt"},
      {"D1", kC, with("null"), 400, "missing_required_parameter", "prompt"},
      {"D2", kC, with(R"("")"), 400, "string_below_min_length", "prompt"},
      {"D3", kC, with("[]"), 400, "array_below_min_length", "prompt"},
      {"D4", kC, with(R"(["a", ""])"), 400, "string_below_min_length", "prompt[1]"},
      {"D5", kC, with("[[]]"), 400, "array_below_min_length", "prompt[0]"},
      {"D5", kC, with("[[1], []]"), 400, "array_below_min_length", "prompt[1]"},
      {"D6", kC, with(R"([1, "a"])"), 400, "invalid_type", "prompt[1]"},
      {"D6", kC, with(R"([[1], "a"])"), 400, "invalid_type", "prompt[1]"},
      {"D6", kC, with(R"(["a", 1])"), 400, "invalid_type", "prompt[1]"},
      {"D6", kC, with(R"([1, [2]])"), 400, "invalid_type", "prompt[1]"},
      {"D6", kC, with("[null]"), 400, "invalid_type", "prompt[0]"},
      {"D7", kC, with("[-1]"), 400, "integer_below_min_value", "prompt[0]"},
      {"D7", kC, with("[[3, -1]]"), 400, "integer_below_min_value", "prompt[0][1]"},
      {"D8", kC, with("[999]")},
      {"D8", kC, with("[1000]"), 400, "integer_above_max_value", "prompt[0]"},
      {"D8", kC, with("[999999]"), 400, "integer_above_max_value", "prompt[0]"},
      {"D9", kC, with("[2147483648]"), 400, "integer_above_max_value", "prompt[0]"},
      {"D9", kC, with("[9223372036854775808]"), 400, "integer_above_max_value", "prompt[0]"},
      {"D9", kC, with("[1.5]"), 400, "invalid_type", "prompt[0]"},
      {"D10", kC, with(list_of(1025, R"("x")")), 400, "array_above_max_length", "prompt"},
      {"D10", kC, with(list_of(100'000, "[1]")), 400, "array_above_max_length", "prompt"},
      {"D12", kC, with("{}"), 400, "invalid_type", "prompt"},
      {"D12", kC, with("true"), 400, "invalid_type", "prompt"},
      {"D12", kC, with("5"), 400, "invalid_type", "prompt"},
      {"D13", kC, R"("echo": "yes")", 400, "invalid_type", "echo"},
      {"D14", kC, R"("echo": true, "logprobs": 2, "max_tokens": 0)"},
      {"D15", kC, R"("suffix": "end")", 400, "unsupported_parameter", "suffix"},
      {"D15", kC, R"("suffix": 5)", 400, "unsupported_parameter", "suffix"},
      {"D15", kC, R"("suffix": null)"},
      {"D16", kC, R"("prompt_embeds": "AAAA")", 400, "unsupported_parameter", "prompt_embeds"},
      {"D17",
       kC,
       R"("use_beam_search": true, "stream": true)",
       400,
       "unsupported_parameter",
       "use_beam_search"},
      {"C9", kC, R"("n": 2, "best_of": 1)", 400, "invalid_value", "best_of"},
      {"C10", kC, R"("best_of": 2, "stream": true)", 400, "unsupported_parameter", "best_of"},
      {"C11", kC, R"("best_of": 21)", 400, "integer_above_max_value", "best_of"},
      {"C11", kC, R"("best_of": 1000000000)", 400, "integer_above_max_value", "best_of"},
      {"C11", kC, R"("best_of": 2, "n": 2)"},
      {"C27", kC, R"("logprobs": -2)", 400, "integer_below_min_value", "logprobs"},
      {"C27", kC, R"("logprobs": 21)", 400, "integer_above_max_value", "logprobs"},
      {"C27", kC, R"("logprobs": "x")", 400, "invalid_type", "logprobs"},
      {"C27", kC, R"("logprobs": true)", 400, "invalid_type", "logprobs"},
      {"C28", kC, R"("top_logprobs": 2)", 400, "unknown_parameter", "top_logprobs"},
      {"C7",
       kC,
       R"({"prompt": )" + list_of(9, R"("x")") + R"(, "n": 128})",
       400,
       "integer_above_max_value",
       "n"},
      {"E1", kC, R"("messages": [])", 400, "unknown_parameter", "messages"},
  });
}

TEST(CompletionRequest, HasOpenAisDefaults) {
  const GenerationRequest request = read(R"({"prompt": "Hi"})");
  EXPECT_EQ(request.api, Api::kCompletions);
  EXPECT_EQ(request.model, "tiny");
  EXPECT_EQ(std::get<std::string>(request.prompts.at(0)), "Hi");
  EXPECT_FALSE(request.is_prompt_list);
  EXPECT_TRUE(request.add_special_tokens);
  EXPECT_FALSE(request.max_tokens);
  EXPECT_EQ(request.fields.sampling.temperature, 1.0F);
  EXPECT_FALSE(request.is_stream);
  EXPECT_EQ(request.num_choices(), 1);
}

TEST(CompletionRequest, KeepsWhatItIsAsked) {
  const GenerationRequest request = read(R"({
    "model": "org/tiny", "prompt": [[1, 2], [3]], "stream": true, "max_tokens": 9, "n": 2,
    "stream_options": {"include_usage": true, "continuous_usage_stats": true}, "echo": true,
    "logprobs": 3, "return_token_ids": true, "return_tokens_as_token_ids": true,
    "return_timings": true, "cache_salt": "pepper", "request_id": "r-1", "timeout_s": 2.5,
    "add_special_tokens": false, "truncate_prompt_tokens": 7, "stop": ["x"], "min_tokens": 2
  })");
  EXPECT_EQ(request.model, "org/tiny");
  EXPECT_EQ(request.request_id, "r-1");
  EXPECT_EQ(std::get<std::vector<TokenId>>(request.prompts.at(0)), (std::vector<TokenId>{1, 2}));
  EXPECT_TRUE(request.is_prompt_list);
  EXPECT_EQ(request.num_choices(), 4);
  EXPECT_TRUE(request.is_stream && request.include_usage && request.continuous_usage_stats);
  EXPECT_EQ(request.max_tokens, 9);
  EXPECT_EQ(request.fields.sampling.logprobs, 3);
  EXPECT_EQ(request.fields.sampling.prompt_logprobs, 3);  // the echoed prompt's
  EXPECT_TRUE(request.return_token_ids && request.return_tokens_as_token_ids);
  EXPECT_TRUE(request.return_timings);
  EXPECT_EQ(request.cache_salt, "pepper");
  EXPECT_FALSE(request.add_special_tokens);
  EXPECT_EQ(request.truncate_prompt_tokens, 7);
  EXPECT_EQ(request.fields.timeout_s, 2.5);
}

TEST(CompletionRequest, MayEchoAlone) {
  const GenerationRequest request = read(R"({"prompt": "x", "echo": true, "max_tokens": 0})");
  EXPECT_EQ(request.max_tokens, 0);
  EXPECT_FALSE(request.fields.sampling.prompt_logprobs);
}

// It said "n" of a request that had stated none.
TEST(CompletionRequest, TooManyChoicesAreThoseOfPromptsOrOfN) {
  SmallServer server;
  server.limits.max_num_live_seqs = 8;
  const auto where = [&](size_t num_prompts, int n) {
    const std::string body =
        fmt::format(R"({{"prompt": {}, "n": {}}})", list_of(num_prompts, R"("x")"), n);
    const Result<GenerationRequest> request = read_completion_request(body, server.context);
    return request ? "" : request.error().where;
  };
  EXPECT_EQ(where(8, 1), "");
  EXPECT_EQ(where(9, 1), "prompt");
  EXPECT_EQ(where(3, 3), "n");
}

TEST(CompletionRequest, TruncatesToWhatLeavesRoom) {
  const auto kept = [](std::string_view fields) {
    return *read(fmt::format(R"({{"prompt": "x", "truncate_prompt_tokens": -1{}}})", fields))
                .truncate_prompt_tokens;
  };
  EXPECT_EQ(kept(""), 256 - 16);
  EXPECT_EQ(kept(R"(, "max_tokens": 100)"), 156);
  EXPECT_EQ(kept(R"(, "max_tokens": 1000000)"), 1);
}

TEST(CompletionRequest, TheModelsDefaultsLieUnderTheRequest) {
  SmallServer server;
  server.defaults = {.temperature = 0.3F, .top_k = 7, .top_p = 0.9F, .max_new_tokens = 50};
  const auto read_with_defaults = [&](std::string_view body) {
    return read_completion_request(body, server.context)->fields.sampling;
  };
  const SamplingParams said = read_with_defaults(R"({"prompt": "x", "temperature": 1.5})");
  EXPECT_EQ(said.temperature, 1.5F);
  EXPECT_EQ(said.top_k, 7);
  EXPECT_EQ(said.top_p, 0.9F);
  EXPECT_EQ(read_with_defaults(R"({"prompt": "x", "temperature": null})").temperature, 0.3F);
}

TEST(CompletionRequest, NamesThePriorityPolicyOnlyWhereThereIsOne) {
  SmallServer server;
  server.limits.policy = SchedulingPolicy::kPriority;
  const Result<GenerationRequest> request =
      read_completion_request(R"({"prompt": "x", "priority": -5})", server.context);
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->fields.priority, -5);
}

TEST(CompletionRequest, AnUnknownModelIsNamedInPart) {
  const std::optional<Error> error =
      refusal(kC, R"({"prompt": "x", "model": ")" + std::string(5000, 'm') + "\"}");
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message, HasSubstr("mmm..."));
  EXPECT_LT(error->message.size(), 200U);
}

}  // namespace
}  // namespace millrace
