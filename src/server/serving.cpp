#include "server/serving.h"

#include <chrono>
#include <utility>

namespace millrace {

Serving::Serving(
    LocalModel loaded, ServingOptions options, http::WakeBatch& engine_wakes, Log& server_log
)
    : model(std::move(loaded)),
      model_path(std::move(options.model_path)),
      model_names(std::move(options.model_names)),
      local_now(std::move(options.local_now)),
      created_s(std::chrono::duration_cast<std::chrono::seconds>(
                    std::chrono::system_clock::now().time_since_epoch()
      )
                    .count()),
      request_context{
          .text = model.text,
          .limits = model.engine->limits(),
          .defaults = model.defaults,
          .served_model_names = model_names,
      },
      metrics(model_names.front(), model.engine->limits()),
      wakes(engine_wakes),
      log(server_log),
      logs_requests(options.logs_requests),
      workers(
          {.num_threads = options.num_text_threads,
           .num_tasks_waiting_max = options.num_text_tasks_waiting_max,
           .num_bytes_waiting_max = options.num_text_bytes_waiting_max}
      ) {}

GenerationCall::Services Serving::services() {
  return {
      .engine = *model.engine,
      .text = model.text,
      .metrics = metrics,
      .workers = workers,
      .calls = calls,
      .wakes = wakes,
      .local_now = local_now,
      .log = log,
      .logs_requests = logs_requests,
  };
}

}  // namespace millrace
