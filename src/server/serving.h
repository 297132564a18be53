// A model that is being served, and what all its requests share. Immutable but for its thread-safe
// parts; lives from the end of loading to the end of the server.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/log.h"
#include "server/call_registry.h"
#include "server/generation_call.h"
#include "server/local_model.h"
#include "server/protocol/generation_request.h"
#include "server/server_metrics.h"
#include "server/text_workers.h"

namespace millrace {

struct ServingOptions {
  std::string model_path;                // as it was named at start
  std::vector<std::string> model_names;  // that clients may ask for; the first is the model's own
  std::function<std::chrono::local_seconds()> local_now;  // the date that chat templates show
  bool logs_requests = false;                             // a line for each call that generates
  size_t num_text_threads = 1;
  size_t num_text_tasks_waiting_max = 4096;  // requests that wait for a text thread; then 503
  size_t num_text_bytes_waiting_max = size_t{1} << 30;  // of their bodies; then 503
};

struct Serving {
  Serving(
      LocalModel loaded, ServingOptions options, http::WakeBatch& engine_wakes, Log& server_log
  );
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

  GenerationCall::Services services();

  LocalModel model;
  const std::string model_path;
  const std::vector<std::string> model_names;
  const std::function<std::chrono::local_seconds()> local_now;
  const int64_t created_s;  // Unix time
  const RequestContext request_context;
  ServerMetrics metrics;
  CallRegistry calls;
  http::WakeBatch& wakes;
  Log& log;
  const bool logs_requests;
  TextWorkers workers;  // last: their tasks use all of the above
};

}  // namespace millrace
