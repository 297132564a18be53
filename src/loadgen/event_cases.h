// For tests, the benchmark and the fuzzer's seeds: events as servers send them, and what they say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace millrace::bench {

struct EventCase {
  std::string name;
  std::string json;
  bool has_choices = true;
  bool is_native = false;
  std::string text = {};       // unescaped
  std::string reasoning = {};  // unescaped
  bool has_other_output = false;
  std::string finish_reason = {};
  std::optional<int64_t> completion_tokens = {}, prompt_tokens = {}, cached_tokens = {},
                         num_token_ids = {};
  std::optional<std::string> error = {};
};

inline std::vector<EventCase> event_cases() {
  return {
      {.name = "millrace, completions with usage",
       .json =
           R"({"id":"cmpl-req-8d1c","object":"text_completion","created":1795269173,"model":"smollm2","system_fingerprint":"fp_millrace","choices":[{"index":0,"text":" pieces","logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":2,"completion_tokens":2,"total_tokens":4,"prompt_tokens_details":{"cached_tokens":1},"completion_tokens_details":{"reasoning_tokens":0}}})",
       .text = " pieces",
       .completion_tokens = 2,
       .prompt_tokens = 2,
       .cached_tokens = 1},
      {.name = "millrace, chat's role",
       .json =
           R"({"id":"chatcmpl-req-807f","object":"chat.completion.chunk","created":1795269173,"model":"smollm2","system_fingerprint":"fp_millrace","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null})"},
      {.name = "millrace, generate",
       .json =
           R"({"text":" combinationence","output_ids":[4925,535],"meta_info":{"id":"req-ebd4","finish_reason":{"type":"length","length":2},"prompt_tokens":1,"completion_tokens":2,"cached_tokens":0,"e2e_latency":0.00010836}})",
       .has_choices = false,
       .is_native = true,
       .text = " combinationence",
       .finish_reason = "length",
       .completion_tokens = 2,
       .prompt_tokens = 1,
       .cached_tokens = 0,
       .num_token_ids = 2},
      {.name = "vLLM, completions",
       .json =
           R"({"id":"cmpl-5a","object":"text_completion","created":1719500000,"model":"m","choices":[{"index":0,"text":" the\n\"quoted\"","logprobs":null,"finish_reason":null,"stop_reason":null,"token_ids":[279,198,1]}],"usage":{"prompt_tokens":1024,"total_tokens":1031,"completion_tokens":7}})",
       .text = " the\n\"quoted\"",
       .completion_tokens = 7,
       .prompt_tokens = 1024,
       .num_token_ids = 3},
      {.name = "vLLM, chat's reasoning",
       .json =
           R"({"id":"chatcmpl-9","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"reasoning_content":"Hm\u00e9 \ud83d\ude00"},"logprobs":null,"finish_reason":null,"token_ids":null}]})",
       .reasoning = "Hm\xc3\xa9 \xf0\x9f\x98\x80"},
      {.name = "vLLM, usage alone",
       .json =
           R"({"id":"cmpl-5a","object":"text_completion","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":5,"total_tokens":12,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":4}}})",
       .has_choices = false,
       .completion_tokens = 7,
       .prompt_tokens = 5,
       .cached_tokens = 4},
      {.name = "vLLM, an error of old",
       .json =
           R"({"object":"error","message":"EngineDeadError","type":"InternalServerError","param":null,"code":500})",
       .has_choices = false,
       .error = "EngineDeadError"},
      {.name = "SGLang, chat with tool calls",
       .json =
           R"({"id":"6b","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":[{"id":"call_1","index":0,"type":"function","function":{"name":"f","arguments":"{\"a\": [1]}"}}]},"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null})",
       .has_other_output = true},
      {.name = "SGLang, an error event",
       .json =
           R"({"error": {"object": "error", "message": "The request was \"aborted\".", "type": "BadRequestError", "param": null, "code": 400}})",
       .has_choices = false,
       .error = "The request was \"aborted\"."},
      {.name = "SGLang, generate",
       .json =
           R"({"text":"Hello","meta_info":{"id":"b","finish_reason":null,"prompt_tokens":9,"weight_version":"default","completion_tokens":1,"cached_tokens":8,"output_token_logprobs":[[-0.25,13,null],[-1e-3,7,null]]},"output_ids":[9707]})",
       .has_choices = false,
       .is_native = true,
       .text = "Hello",
       .completion_tokens = 1,
       .prompt_tokens = 9,
       .cached_tokens = 8,
       .num_token_ids = 1},
      {.name = "llama-server, chat",
       .json =
           R"({"choices":[{"finish_reason":null,"index":0,"delta":{"content":" world"}}],"created":1757000000,"id":"chatcmpl-x","model":"m","system_fingerprint":"b6000","object":"chat.completion.chunk","timings":{"cache_n":0,"prompt_n":12,"prompt_ms":35.25,"prompt_per_token_ms":2.9375,"predicted_n":4,"predicted_ms":1e2,"predicted_per_second":40.0}})",
       .text = " world"},
      {.name = "llama-server, an error",
       .json = R"({"error":{"code":500,"message":"context is full","type":"server_error"}})",
       .has_choices = false,
       .error = "context is full"},
      {.name = "OpenAI, the end of a chat",
       .json =
           R"({"id":"chatcmpl-B","object":"chat.completion.chunk","created":1,"model":"gpt-4o-mini","service_tier":"default","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null,"obfuscation":"aX9"})",
       .finish_reason = "stop"},
      {.name = "OpenAI, a refusal",
       .json = R"({"id":"c","choices":[{"index":0,"delta":{"refusal":"I cannot"}}]})",
       .has_other_output = true},
      {.name = "OpenAI, a whole chat",
       .json =
           R"({"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Paris.","refusal":null,"annotations":[]},"finish_reason":"stop"}],"usage":{"prompt_tokens":14,"completion_tokens":3,"total_tokens":17,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0}}})",
       .text = "Paris.",
       .finish_reason = "stop",
       .completion_tokens = 3,
       .prompt_tokens = 14,
       .cached_tokens = 0},
      {.name = "TensorRT-LLM, completions",
       .json =
           R"({"id":"cmpl-e","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":" a","token_ids":null,"logprobs":null,"context_logits":null,"finish_reason":null,"stop_reason":null,"disaggregated_params":null}],"usage":null})",
       .text = " a"},
      {.name = "another order, and space",
       .json = "{ \"usage\" : { \"completion_tokens\" : 3 } ,\r\n\t\"choices\" : [ { \"delta\" : { "
               "\"content\" : \"x\" } } ] } ",
       .text = "x",
       .completion_tokens = 3},
      {.name = "keys with escapes, and look-alikes deeper down",
       .json =
           R"({"cho\u0069ces":[{"t\u0065xt":"a\/b","meta":{"text":"no","usage":{"completion_tokens":9}}}],"x":{"error":"no","choices":[1]},"y":[{"finish_reason":"no"}]})",
       .text = "a/b"},
      {.name = "an error that is a text",
       .json = R"({"error":"overloaded"})",
       .has_choices = false,
       .error = "overloaded"},
      {.name = "no error", .json = R"({"error":null,"choices":[{"text":"a"}]})", .text = "a"},
      {.name = "counts that are none",
       .json = R"({"choices":[{"text":""}],"usage":{"completion_tokens":1.5,"prompt_tokens":-1}})"},
  };
}

}  // namespace millrace::bench
