#include "real_models.h"

#include <algorithm>
#include <filesystem>

#include "base/available.h"
#include "base/check.h"
#include "engine/event_queue.h"
#include "model_location.h"

namespace millrace {
namespace {

std::vector<Generated> collect(EventQueue& queue, int32_t n) {
  std::vector<Generated> choices(static_cast<size_t>(n));
  for (int32_t num_unfinished = n; num_unfinished > 0;) {
    EngineEvent event = queue.next();
    if (auto* token = std::get_if<TokenEvent>(&event)) {
      Generated& choice = choices[static_cast<size_t>(token->choice)];
      choice.tokens.push_back(token->token.id);
      choice.logprobs.push_back(std::move(token->token.logprobs));
    } else if (const auto* finished = std::get_if<FinishedEvent>(&event)) {
      Generated& choice = choices[static_cast<size_t>(finished->choice)];
      choice.reason = finished->reason;
      choice.num_preemptions = finished->timings.num_preemptions;
      choice.num_cached_tokens = finished->timings.num_cached_tokens;
      num_unfinished = finished->num_choices_unfinished;
    }
  }
  return choices;
}

std::shared_ptr<EventQueue> submit(Engine& engine, const EngineRequest& request) {
  auto queue = std::make_shared<EventQueue>(request);
  const Result<RequestId> id = engine.submit(request, queue);
  CHECK(id.ok(), id.error().message);
  return queue;
}

}  // namespace

std::optional<std::string> stories_path() {
  const std::string path = MILLRACE_SOURCE_DIR "/../shared/data/models/stories260k";
  return std::filesystem::exists(path) ? std::optional(path) : std::nullopt;
}

std::optional<std::string> smollm2_path() {
  const Result<std::string> path = locate_model(kDefaultModel);
  return path ? std::optional(*path) : std::nullopt;
}

LocalModel load_model(const std::string& path, const EngineSetup& setup) {
  LocalModelOptions options;
  options.text.model = path;
  options.dtype = setup.dtype;
  options.block_size = setup.block_size;
  options.kv_cache_bytes = setup.kv_cache_bytes;
  options.available_bytes = available_memory();
  options.num_threads = setup.num_threads;
  options.max_num_batched_tokens = setup.max_num_batched_tokens;
  options.long_prefill_token_threshold = setup.long_prefill_token_threshold;
  options.engine.max_num_seqs = setup.max_num_seqs;
  options.engine.max_logit_rows = setup.max_num_seqs;
  if (setup.speculation) options.engine.max_logit_rows += 4 * setup.max_num_seqs;
  options.engine.speculation = setup.speculation;
  options.engine.max_model_len = setup.max_model_len;
  Result<LocalModel> model = load_local_model(std::move(options));
  CHECK(model.ok(), model.error().message);
  return *std::move(model);
}

std::vector<std::vector<Generated>> generate_together(
    Engine& engine, const std::vector<EngineRequest>& requests
) {
  std::vector<std::shared_ptr<EventQueue>> queues;
  for (const EngineRequest& request : requests) queues.push_back(submit(engine, request));
  std::vector<std::vector<Generated>> results;
  for (size_t i = 0; i < requests.size(); ++i) {
    results.push_back(collect(*queues[i], requests[i].sampling.n));
  }
  return results;
}

std::vector<std::vector<Generated>> generate_alone(
    Engine& engine, const std::vector<EngineRequest>& requests
) {
  std::vector<std::vector<Generated>> results;
  for (const EngineRequest& request : requests) {
    results.push_back(collect(*submit(engine, request), request.sampling.n));
  }
  return results;
}

}  // namespace millrace
