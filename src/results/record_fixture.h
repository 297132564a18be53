// Records for tests: a request whose every time is chosen, and a point of many like it.
#pragma once

#include <cstdint>
#include <utility>

#include "results/point_record.h"

namespace millrace::bench {

struct MadeRequest {
  int64_t index = 0;
  double sent_ms = 0.0;
  double ttft_ms = 100.0;
  double itl_ms = 10.0;
  int64_t num_chunks = 10;
  int64_t tokens_per_chunk = 1;
  int64_t num_prompt_tokens = 100;
};

inline Nanos from_ms(double ms) {
  return Nanos(static_cast<int64_t>(ms * 1e6));
}

// One that completed, with a usage in each chunk.
inline RequestRecord make_request(const MadeRequest& made) {
  RequestRecord request;
  request.index = made.index;
  request.scheduled = request.admitted = request.sent = from_ms(made.sent_ms);
  for (int64_t i = 0; i < made.num_chunks; ++i) {
    const double at_ms = made.sent_ms + made.ttft_ms + made.itl_ms * static_cast<double>(i);
    request.chunks.push_back(Chunk::make(from_ms(at_ms), made.tokens_per_chunk));
  }
  request.first_chunk = request.first_text = request.first_token = request.first_answer =
      request.chunks.front().at();
  request.last_token = request.last_chunk = request.chunks.back().at();
  request.ended = *request.last_chunk;
  request.num_prompt_tokens_planned = made.num_prompt_tokens;
  request.num_prompt_tokens = made.num_prompt_tokens;
  request.num_cached_tokens = 0;
  request.num_output_tokens = made.num_chunks * made.tokens_per_chunk;
  request.num_output_tokens_planned = request.num_output_tokens;
  request.output_source = TokenSource::kUsageDeltas;
  request.outcome = Outcome::kCompleted;
  request.http_status = 200;
  request.finish_reason = "length";
  return request;
}

// The same answer in one JSON object.
inline void make_whole(RequestRecord& request) {
  request.first_chunk = request.first_text = request.first_token = request.first_answer =
      request.last_chunk = std::nullopt;
  request.chunks.clear();
}

// A closed loop of `concurrency` slots without a pause, `num_requests` in all, that nothing is
// wrong with.
inline PointRecord make_closed_loop(int64_t concurrency, int64_t num_requests, MadeRequest made) {
  PointRecord record;
  record.plan.name = "made";
  record.plan.num_prompts = num_requests;
  record.plan.dataset.name = "random";
  record.plan.dataset.ignores_eos = true;
  record.plan.load.kind = LoadKind::kConcurrency;
  record.plan.load.max_concurrency = concurrency;
  const double e2e_ms = made.ttft_ms + made.itl_ms * static_cast<double>(made.num_chunks - 1);
  for (int64_t i = 0; i < num_requests; ++i) {
    made.index = i;
    made.sent_ms = static_cast<double>(i / concurrency) * e2e_ms;
    RequestRecord request = make_request(made);
    request.slot = static_cast<int32_t>(i % concurrency);
    request.session = i;
    record.finished = std::max(record.finished, request.ended);
    record.requests.push_back(std::move(request));
  }
  record.client.open_files_limit = 1024;
  record.client.num_connections = concurrency;
  return record;
}

}  // namespace millrace::bench
