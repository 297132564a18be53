// Reading ordinary requests, and refusing bad ones: time for each body.
#include <benchmark/benchmark.h>

#include "server/protocol/request_cases.h"

namespace millrace {
namespace {

// About 32 tokens of English.
constexpr std::string_view kText =
    "The river rose slowly in the night, and by the morning the lower fields were under water; "
    "nobody in the village had seen it that high before.";

std::string completion_body() {
  return fmt::format(
      R"({{"model": "tiny", "prompt": "{}", "max_tokens": 512, "temperature": 0.0, )"
      R"("stream": true, "stream_options": {{"include_usage": true}}, "ignore_eos": true}})",
      kText
  );
}

std::string chat_body() {
  return fmt::format(
      R"({{"model": "tiny", "messages": [{{"role": "system", "content": "Be brief."}}, )"
      R"({{"role": "user", "content": "{}"}}], "max_completion_tokens": 512, "temperature": 0.7, )"
      R"("stream": true, "stream_options": {{"include_usage": true}}}})",
      kText
  );
}

std::string native_body() {
  return fmt::format(
      R"({{"text": "{}", "sampling_params": {{"temperature": 0.0, "max_new_tokens": 512, )"
      R"("ignore_eos": true}}, "stream": true, "return_logprob": false}})",
      kText
  );
}

void BM_ReadCompletion(benchmark::State& state) {
  const std::string body = completion_body();
  for (auto _ : state) {
    benchmark::DoNotOptimize(read_completion_request(body, small_context()));
  }
}
BENCHMARK(BM_ReadCompletion);

void BM_ReadChat(benchmark::State& state) {
  const std::string body = chat_body();
  for (auto _ : state) benchmark::DoNotOptimize(read_chat_request(body, small_context()));
}
BENCHMARK(BM_ReadChat);

void BM_ReadNative(benchmark::State& state) {
  const std::string body = native_body();
  for (auto _ : state) benchmark::DoNotOptimize(read_native_request(body, small_context()));
}
BENCHMARK(BM_ReadNative);

void BM_ReadTokenIds(benchmark::State& state) {
  std::string body = R"({"prompt": [)";
  for (int64_t i = 0; i < state.range(0); ++i)
    body += fmt::format("{}{}", i > 0 ? "," : "", i % 999);
  body += "]}";
  for (auto _ : state) {
    benchmark::DoNotOptimize(read_completion_request(body, small_context()));
  }
}
BENCHMARK(BM_ReadTokenIds)->Arg(32)->Arg(1024)->Arg(32768);

// A body to its whole error response.
void refuse(benchmark::State& state, const std::string& body) {
  for (auto _ : state) {
    const Result<GenerationRequest> request = read_completion_request(body, small_context());
    CHECK(!request, "this body is bad");
    benchmark::DoNotOptimize(to_response(to_api_error(request.error())));
  }
}

void BM_RefuseTruncatedJson(benchmark::State& state) {
  const std::string body = completion_body();
  refuse(state, body.substr(0, body.size() - 1));
}
BENCHMARK(BM_RefuseTruncatedJson);

void BM_RefuseNoJson(benchmark::State& state) {
  refuse(state, "prompt=x");
}
BENCHMARK(BM_RefuseNoJson);

void BM_RefuseUnknownField(benchmark::State& state) {
  refuse(state, R"({"model": "tiny", "prompt": "x", "temprature": 1})");
}
BENCHMARK(BM_RefuseUnknownField);

void BM_RefuseRange(benchmark::State& state) {
  refuse(state, R"({"model": "tiny", "prompt": "x", "temperature": 3})");
}
BENCHMARK(BM_RefuseRange);

void BM_ParseJsonAlone(benchmark::State& state) {
  const std::string body = completion_body();
  for (auto _ : state) benchmark::DoNotOptimize(parse_json(body));
}
BENCHMARK(BM_ParseJsonAlone);

}  // namespace
}  // namespace millrace
