#include "server/protocol/native_request.h"

#include <gtest/gtest.h>

#include "server/protocol/request_cases.h"

namespace millrace {
namespace {

constexpr Endpoint kN = Endpoint::kGenerate;

GenerationRequest read(std::string_view body) {
  Result<GenerationRequest> request = read_native_request(body, small_context());
  CHECK(request.ok(), request.error().message);
  return *std::move(request);
}

std::string sampling(std::string_view params) {
  return fmt::format(R"({{"text": "x", "sampling_params": {{{}}}}})", params);
}

TEST(NativeRequest, RefusesByPath) {
  const RequestCase cases[] = {
      {"N1", kN, "{}", 400, "missing_required_parameter", "text"},
      {"N1", kN, R"({"text": "x", "input_ids": [1]})", 400, "invalid_value", "input_ids"},
      {"N1", kN, R"({"text": 5})", 400, "invalid_type", "text"},
      {"N1", kN, R"({"text": ""})", 400, "string_below_min_length", "text"},
      {"N1", kN, R"({"text": []})", 400, "array_below_min_length", "text"},
      {"N1", kN, R"({"text": ["a", [1]]})", 400, "invalid_type", "text[1]"},
      {"N1", kN, R"({"input_ids": "x"})", 400, "invalid_type", "input_ids"},
      {"N1", kN, R"({"input_ids": [1, -1]})", 400, "integer_below_min_value", "input_ids[1]"},
      {"N1",
       kN,
       R"({"input_ids": [[1], [1000]]})",
       400,
       "integer_above_max_value",
       "input_ids[1][0]"},
      {"N1", kN, R"({"input_ids": [["a"]]})", 400, "invalid_type", "input_ids[0][0]"},
      {"N2", kN, R"({"text": "x", "sampling_params": 5})", 400, "invalid_type", "sampling_params"},
      {"N2",
       kN,
       R"({"text": "x", "sampling_params": []})",
       400,
       "invalid_value",
       "sampling_params"},
      {"N2",
       kN,
       R"({"text": ["x", "y"], "sampling_params": [{"top_k": 1}, {"top_k": 2}]})",
       400,
       "unsupported_parameter",
       "sampling_params"},
      {"N2", kN, R"({"text": ["x", "y"], "sampling_params": [{"top_k": 1}, {"top_k": 1}]})"},
      {"N3",
       kN,
       sampling(R"("max_tokens": 5)"),
       400,
       "unknown_parameter",
       "sampling_params.max_tokens"},
      {"N3",
       kN,
       sampling(R"("max_new_tokens": 0)"),
       400,
       "integer_below_min_value",
       "sampling_params.max_new_tokens"},
      {"N3",
       kN,
       sampling(R"("max_new_tokens": "5")"),
       400,
       "invalid_type",
       "sampling_params.max_new_tokens"},
      {"N3",
       kN,
       sampling(R"("max_new_tokens": 4, "min_new_tokens": 5)"),
       400,
       "integer_above_max_value",
       "sampling_params.min_new_tokens"},
      {"N3",
       kN,
       sampling(R"("temperature": 3)"),
       400,
       "decimal_above_max_value",
       "sampling_params.temperature"},
      {"N3", kN, sampling(R"("top_p": "x")"), 400, "invalid_type", "sampling_params.top_p"},
      {"N3", kN, sampling(R"("stop": ["a", 1])"), 400, "invalid_type", "sampling_params.stop[1]"},
      {"N3",
       kN,
       sampling(R"("stop_token_ids": [1, 5000])"),
       400,
       "integer_above_max_value",
       "sampling_params.stop_token_ids[1]"},
      {"N3",
       kN,
       sampling(R"("sampling_seed": 1.5)"),
       400,
       "invalid_type",
       "sampling_params.sampling_seed"},
      {"N3", kN, sampling(R"("n": 1000)"), 400, "integer_above_max_value", "sampling_params.n"},
      {"N3",
       kN,
       sampling(R"("json_schema": "{}")"),
       400,
       "unsupported_parameter",
       "sampling_params.json_schema"},
      {"N3",
       kN,
       sampling(R"("regex": "a")"),
       400,
       "unsupported_parameter",
       "sampling_params.regex"},
      {"N3",
       kN,
       sampling(R"("stop_regex": "a")"),
       400,
       "unsupported_parameter",
       "sampling_params.stop_regex"},
      {"N3",
       kN,
       sampling(R"("beam_width": 2)"),
       400,
       "unsupported_parameter",
       "sampling_params.beam_width"},
      {"N4", kN, R"({"text": "x", "return_logprob": 1})", 400, "invalid_type", "return_logprob"},
      {"N4",
       kN,
       R"({"text": "x", "return_logprob": true, "top_logprobs_num": 21})",
       400,
       "integer_above_max_value",
       "top_logprobs_num"},
      {"N4",
       kN,
       R"({"text": "x", "return_logprob": true, "logprob_start_len": 3})",
       400,
       "unsupported_parameter",
       "logprob_start_len"},
      {"N4",
       kN,
       R"({"text": ["a", "b"], "return_logprob": [true]})",
       400,
       "invalid_value",
       "return_logprob"},
      {"N4",
       kN,
       R"({"text": "a", "logprob_start_len": []})",
       400,
       "invalid_value",
       "logprob_start_len"},
      {"N4",
       kN,
       R"({"text": ["a", "b"], "sampling_params": [{}]})",
       400,
       "invalid_value",
       "sampling_params"},
      {"N4",
       kN,
       R"({"text": "a", "sampling_params": [{}, {}, {}]})",
       400,
       "invalid_value",
       "sampling_params"},
      {"N4", kN, R"({"text": "a", "sampling_params": [{}], "return_logprob": [true]})"},
      {"N4", kN, R"({"text": ["a", "b"], "sampling_params": [{}, {}]})"},
      {"N5",
       kN,
       R"({"text": "x", "image_data": "http://10.0.0.1/"})",
       400,
       "unsupported_parameter",
       "image_data"},
      {"N5",
       kN,
       R"({"text": "x", "lora_path": "../x"})",
       400,
       "unsupported_parameter",
       "lora_path"},
      {"N5",
       kN,
       R"({"text": "x", "bootstrap_host": "10.0.0.1"})",
       400,
       "unsupported_parameter",
       "bootstrap_host"},
      {"N5",
       kN,
       R"({"text": "x", "custom_logit_processor": "gASV"})",
       400,
       "unsupported_parameter",
       "custom_logit_processor"},
      {"N5", kN, R"({"text": "x", "rid": ["a", "b"]})", 400, "unsupported_parameter", "rid"},
      {"N5", kN, R"({"text": "x", "rid": "a b"})", 400, "invalid_value", "rid"},
      {"N5", kN, R"({"text": "x", "priority": 5})", 400, "unsupported_parameter", "priority"},
      {"N5", kN, R"({"text": "x", "model": "other"})", 404, "model_not_found", "model"},
      {"N5", kN, R"({"text": "x", "prompt": "y"})", 400, "unknown_parameter", "prompt"},
  };
  for (const RequestCase& c : cases) EXPECT_EQ(fault_of(c), "");
}

TEST(NativeRequest, ReadsWhatSglangsBenchmarkSends) {
  const GenerationRequest request = read(R"({
    "text": "Hi", "stream": true, "lora_path": null, "return_logprob": false,
    "logprob_start_len": -1, "image_data": null, "return_routed_experts": false,
    "sampling_params": {"temperature": 0.0, "max_new_tokens": 32, "ignore_eos": true}
  })");
  EXPECT_EQ(request.api, Api::kNative);
  EXPECT_TRUE(request.is_stream);
  EXPECT_EQ(request.max_tokens, 32);
  EXPECT_TRUE(request.fields.sampling.ignore_eos);
  EXPECT_EQ(request.fields.sampling.temperature, 0.0F);
  EXPECT_FALSE(request.fields.sampling.logprobs);
  EXPECT_FALSE(request.is_prompt_list);
}

TEST(NativeRequest, KeepsWhatItIsAsked) {
  const GenerationRequest request = read(R"({
    "input_ids": [[1, 2], [3]], "rid": "me-1", "return_logprob": [true, true],
    "top_logprobs_num": 2, "logprob_start_len": 0, "return_text_in_logprobs": true,
    "cache_salt": "pepper", "timeout_s": 9,
    "sampling_params": {"max_new_tokens": null, "min_new_tokens": 3, "no_stop_trim": true,
                        "sampling_seed": 7, "stop": "x", "n": 2, "logit_bias": {"5": -1}}
  })");
  EXPECT_TRUE(request.is_prompt_list);
  EXPECT_EQ(request.num_choices(), 4);
  EXPECT_EQ(request.request_id, "me-1");
  EXPECT_EQ(request.fields.sampling.logprobs, 2);
  EXPECT_EQ(request.fields.sampling.prompt_logprobs, 2);
  EXPECT_TRUE(request.return_text_in_logprobs);
  EXPECT_EQ(request.cache_salt, "pepper");
  EXPECT_EQ(request.fields.timeout_s, 9.0);
  EXPECT_FALSE(request.max_tokens);
  EXPECT_EQ(request.fields.sampling.min_tokens, 3);
  EXPECT_TRUE(request.fields.include_stop_str_in_output);
  EXPECT_EQ(request.fields.sampling.seed, 7U);
  EXPECT_EQ(request.fields.stop, std::vector<std::string>{"x"});
}

TEST(NativeRequest, HasSglangsDefaults) {
  const GenerationRequest request = read(R"({"text": "x"})");
  EXPECT_EQ(request.max_tokens_default, 128);
  EXPECT_EQ(request.fields.sampling.temperature, 1.0F);
  EXPECT_TRUE(request.request_id.empty());
}

TEST(NativeRequest, SeveralChoicesAreAList) {
  EXPECT_TRUE(read(sampling(R"("n": 2)")).is_prompt_list);
  EXPECT_TRUE(read(R"({"text": ["x"]})").is_prompt_list);
}

}  // namespace
}  // namespace millrace
