// Runs a file of requests through an engine of this process: as many at once as fill it, each
// answered as a server would, in the order in which they are finished.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "answered_requests.h"
#include "base/clock.h"
#include "base/result.h"
#include "batch_output.h"
#include "jsonl_input.h"
#include "server/local_model.h"

namespace millrace {

// So far, or in all.
struct BatchProgress {
  int64_t num_answered = 0;         // with a 200
  int64_t num_failed = 0;           // with an error, which is an answer too
  int64_t num_answered_before = 0;  // by an earlier run
  int64_t num_failed_before = 0;
  int64_t num_prompt_tokens = 0;  // of the answered
  int64_t num_output_tokens = 0;
  uint64_t num_input_bytes = 0;  // of the lines that have an answer
  bool is_interrupted = false;
  Duration duration{0};
};

struct OfflineBatchOptions {
  std::vector<std::string> model_names;  // that requests may ask for
  size_t num_requests_at_once = 1;       // read and not answered
  // What requests without a seed get theirs from, each by its line: the same file gets the same
  // answers, however often it was interrupted.
  uint64_t seed = 0;
  std::function<std::chrono::local_seconds()> local_now;                // for chat templates
  std::function<void(const BatchProgress& progress)> on_progress = {};  // after each answer
};

// Returns when every line has its answer, or soon after `stop` is requested: what is under way then
// is cancelled and not answered, so that the next run does it. The error: the input cannot be read,
// or the output not be written. The engine serves nobody else, and nobody after this.
Result<BatchProgress> run_offline_batch(
    LocalModel& model,
    JsonlInput& input,
    BatchOutput& output,
    AnsweredRequests& answered,
    const OfflineBatchOptions& options,
    const std::stop_token& stop
);

}  // namespace millrace
