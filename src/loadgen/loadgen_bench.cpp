// What one core of the load generator can read: bytes of answers, as they come from a socket, to
// records. Sockets are left out; `millrace bench calibrate` measures with them.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "base/check.h"
#include "loadgen/event_cases.h"
#include "loadgen/exchange.h"
#include "loadgen/request_body.h"

namespace millrace::bench {
namespace {

std::string frame(std::string_view event) {
  char size[17] = {};
  std::snprintf(size, sizeof size, "%zx", event.size() + 8);
  return std::string(size) + "\r\ndata: " + std::string(event) + "\n\n\r\n";
}

// A stream as ours and vLLM's are, one chunk an event.
std::string stream(int64_t num_tokens, bool has_usage, int64_t number) {
  std::string bytes =
      "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
  const std::string id = std::to_string(1'000'000 + number);
  for (int64_t i = 0; i < num_tokens; ++i) {
    std::string event = R"({"id":"cmpl-req-8d1cc33f42fe65b0f)" + id +
                        R"(","object":"text_completion","created":1795269173,"model":"smollm2",)"
                        R"("system_fingerprint":"fp_millrace","choices":[{"index":0,"text":" w)" +
                        std::to_string(i) + R"(","logprobs":null,"finish_reason":null}])";
    if (has_usage) {
      event += R"(,"usage":{"prompt_tokens":32,"completion_tokens":)" + std::to_string(i + 1) +
               R"(,"total_tokens":)" + std::to_string(i + 33) +
               R"(,"prompt_tokens_details":{"cached_tokens":0}})";
    }
    bytes += frame(event + "}");
  }
  bytes += frame(R"({"id":"x","choices":[{"index":0,"text":"","finish_reason":"length"}]})");
  return bytes + frame("[DONE]") + "0\r\n\r\n";
}

std::unique_ptr<SessionRun> planned(int64_t num_tokens) {
  auto run = std::make_unique<SessionRun>(SessionRun{
      .conversation = Conversation(Protocol::kCompletions)});
  run->plan.turns.push_back({.num_output_tokens = num_tokens});
  return run;
}

void read_streams(benchmark::State& state) {
  const int64_t num_tokens = state.range(0);
  const std::string bytes[] = {
      stream(num_tokens, state.range(1) != 0, 1), stream(num_tokens, state.range(1) != 0, 2)};
  EventReader reader;
  Exchange exchange({});
  size_t which = 0;
  for ([[maybe_unused]] auto _ : state) {
    exchange.start(planned(num_tokens));
    const bool has_ended = exchange.take(bytes[which ^= 1], Nanos(1), reader);
    CHECK(has_ended && exchange.record().num_output_tokens == num_tokens, exchange.record().error);
    benchmark::DoNotOptimize(exchange.release());
  }
  state.SetItemsProcessed(state.iterations() * num_tokens);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes[0].size()));
}
BENCHMARK(read_streams)->ArgNames({"tokens", "usage"})->ArgsProduct({{16, 512}, {0, 1}});

void read_event_the_long_way(benchmark::State& state) {
  const std::string event = event_cases()[0].json;
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(read_event(event));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(event.size()));
}
BENCHMARK(read_event_the_long_way);

void read_event_by_template(benchmark::State& state) {
  const std::string event = event_cases()[0].json;
  EventReader reader;
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(reader.read(event));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(event.size()));
}
BENCHMARK(read_event_by_template);

void word_request(benchmark::State& state) {
  const Target target{.url = {.address = http::TcpAddress{"127.0.0.1", 1}}, .model = "m"};
  const Result<RequestWriter> writer = RequestWriter::make(target, true);
  const PlannedPrompt prompt = std::string(static_cast<size_t>(state.range(0)), 'x');
  for ([[maybe_unused]] auto _ : state) {
    Conversation conversation(target.protocol);
    CHECK(conversation.add_prompt(prompt).ok(), "text is fine");
    benchmark::DoNotOptimize(writer->write(conversation, 16));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(word_request)->ArgName("bytes")->Arg(128)->Arg(4096)->Arg(65536);

}  // namespace
}  // namespace millrace::bench
