#include "report/request_arrays.h"

#include <chrono>

#include "results/formulas.h"

namespace millrace::bench {
namespace {

double seconds(Nanos time) {
  return std::chrono::duration<double>(time).count();
}

// One tool's reading of a request's clock.
struct Reading {
  std::optional<Nanos> first;
  Nanos last{0};
};

// Gaps between the chunks from `first` on.
json::array gaps_after(const RequestRecord& request, Nanos first) {
  json::array gaps;
  std::optional<Nanos> previous;
  for (const Chunk& chunk : request.chunks) {
    if (chunk.at() < first) continue;
    if (previous) gaps.push_back(seconds(chunk.at() - *previous));
    previous = chunk.at();
  }
  return gaps;
}

std::string error_of(const RequestRecord& request) {
  if (request.outcome == Outcome::kCompleted) return "";
  if (request.outcome == Outcome::kUnfinished) return "unfinished when the point ended";
  return request.error.empty() ? "failed" : request.error;
}

void add_request(RequestArrays& arrays, const RequestRecord& request, const Reading& reading) {
  arrays.input_lens.push_back(request.num_prompt_tokens.value_or(request.num_prompt_tokens_planned)
  );
  const bool is_good = request.outcome == Outcome::kCompleted;
  const bool has_first = is_good && reading.first;
  arrays.output_lens.push_back(is_good ? request.num_output_tokens : int64_t{0});
  arrays.ttfts.push_back(has_first ? seconds(*reading.first - request.sent) : 0.0);
  arrays.itls.push_back(has_first ? gaps_after(request, *reading.first) : json::array());
  arrays.latencies.push_back(is_good ? seconds(reading.last - request.sent) : 0.0);
  arrays.start_times.push_back(seconds(request.sent));
  arrays.queue_times.push_back(seconds(request.sent - request.scheduled));
  arrays.texts.push_back(json::value(request.text));
  arrays.errors.push_back(json::value(error_of(request)));
}

}  // namespace

RequestArrays vllm_request_arrays(const PointRecord& record) {
  RequestArrays arrays;
  for (const RequestRecord& request : record.requests) {
    if (request.phase != Phase::kMeasured) continue;
    const Nanos last = request.last_chunk.value_or(request.ended);
    add_request(arrays, request, {.first = request.first_chunk, .last = last});
  }
  return arrays;
}

RequestArrays sglang_request_arrays(const PointRecord& record) {
  RequestArrays arrays;
  for (const RequestRecord& request : record.requests) {
    if (request.phase != Phase::kMeasured) continue;
    add_request(arrays, request, {.first = first_text_or_whole(request), .last = request.ended});
  }
  return arrays;
}

}  // namespace millrace::bench
