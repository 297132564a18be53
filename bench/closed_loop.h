// Closed loop: each connection sends its next request when the last one is answered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/answer_check.h"
#include "bench/canned_server.h"
#include "bench/scenario.h"

namespace millrace::bench {

enum class AnswerKind { kStream, kWhole, kRefusal };

struct LoadRequest {
  std::string bytes;
  Asked asked;
};

struct Workload {
  AnswerKind kind = AnswerKind::kStream;
  std::vector<LoadRequest> requests;  // each connection takes them in turn
  size_t num_connections = 64;
  size_t num_pipelined = 1;  // so many are sent at once; then `requests` holds one
};

// 32 prompt tokens in, so many out.
Workload stream_workload(const std::string& model, bool is_chat, int64_t num_output_tokens);
// 1 to 16 tokens out, each as often as the others.
Workload whole_workload(const std::string& model, bool is_chat);
Workload refusal_workload(const std::string& model);

// Rates over `seconds`, after one second of warming up. Every answer's status and framing is
// checked, every stream's number of events and end, and one answer in 32 as answer_check.h says.
Result<Report> measure_closed_loop(
    const ServerUnderLoad& target,
    const Workload& workload,
    const std::string& scenario,
    double seconds
);

// What a CannedServer needs to answer `workload` as `target` does: its first request's answer is
// fetched. `is_piecewise`: each event goes by itself.
Result<CannedAnswer> canned_answer(
    const ServerUnderLoad& target, const Workload& workload, bool is_piecewise
);

}  // namespace millrace::bench
