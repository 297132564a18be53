// The per-request arrays of a detailed result: one element for each measured request, in the order
// of the plan. Times are seconds. A request that failed or was cut has an error and zeros, as in
// the tools whose files these are.
#pragma once

#include "base/json.h"
#include "results/point_record.h"

namespace millrace::bench {

struct RequestArrays {
  json::array input_lens, output_lens;  // tokens
  json::array ttfts, itls, latencies;   // itls: [requests][gaps]
  json::array start_times, queue_times;
  json::array texts, errors;
};

// vLLM: the first event with choices is the first token, the last one the end.
RequestArrays vllm_request_arrays(const PointRecord& record);
// SGLang: the first event with text is the first token, the stream's end the end.
RequestArrays sglang_request_arrays(const PointRecord& record);

}  // namespace millrace::bench
