#include "batch_call.h"

#include <utility>

#include "base/rng.h"
#include "server/engine_requests.h"
#include "server/field_error.h"
#include "server/protocol/api_error.h"
#include "server/protocol/chat_request.h"
#include "server/protocol/completion_request.h"

namespace millrace {

Result<std::unique_ptr<BatchCall>> BatchCall::make(
    const BatchRequestLine& line, const BatchAnswerName& name, const Context& context
) {
  const auto read = line.api == Api::kChat ? read_chat_request : read_completion_request;
  Result<GenerationRequest> request = read(line.body, context.requests);
  if (!request) return request.error();
  if (request->is_stream) return unsupported_field("stream", "an answer in a file is whole");
  std::unique_ptr<BatchCall> call(new BatchCall(*std::move(request), name, context.request_id));
  const ModelText& text = context.requests.text;
  Result<std::vector<EngineRequest>> prompts = build_engine_requests(
      call->request_, text, context.requests.limits, Clock::now(), context.local_now()
  );
  if (!prompts) return prompts.error();
  call->prompts_ = *std::move(prompts);
  for (size_t i = 0; i < call->prompts_.size(); ++i) {
    std::optional<uint64_t>& seed = call->prompts_[i].sampling.seed;
    if (!seed) seed = random_bits(random_bits(context.seed, name.line_number), i);
  }
  const AnswerIdentity identity = make_identity(call->request_.api, call->request_id_);
  call->writer_ = make_answer_writer(call->request_, text.tokenizer, identity);
  call->progress_.emplace(text.tokenizer, call->request_, call->prompts_);
  return call;
}

BatchCall::BatchCall(GenerationRequest request, BatchAnswerName name, std::string request_id)
    : request_(std::move(request)),
      name_(std::move(name)),
      request_id_(request_.request_id.empty() ? std::move(request_id) : request_.request_id) {}

EngineRequest BatchCall::next_request() const {
  EngineRequest request = prompts_[next_prompt()];
  // It counts from when the engine may begin, not from when the line was read ahead.
  if (request_.fields.timeout_s) {
    const std::chrono::duration<double> timeout(*request_.fields.timeout_s);
    request.deadline = Clock::now() + std::chrono::duration_cast<Duration>(timeout);
  }
  return request;
}

Result<std::optional<int32_t>> BatchCall::take(size_t prompt, EngineEvent event) {
  std::optional<int32_t> stopped;
  if (auto* logprobs = std::get_if<PromptLogprobsEvent>(&event)) {
    progress_->take_prompt_logprobs(prompt, *logprobs);
  } else if (auto* token = std::get_if<TokenEvent>(&event)) {
    const int32_t choice = token->choice;
    const std::optional<GenerationProgress::News> news = progress_->take_token(prompt, *token);
    if (news && news->is_stopped_by_text) stopped = choice;
    if (news) progress_->keep(*news);
  } else {
    const auto news = progress_->take_end(prompt, std::get<FinishedEvent>(event), false);
    if (!news) return news.error();
    progress_->keep(*news);
  }
  return stopped;
}

std::string BatchCall::answer_line() {
  const std::string body = writer_->whole(progress_->take_result());
  return batch_answer_line(name_, 200, request_id_, body);
}

std::string BatchCall::failure_line(const Error& error) const {
  return batch_failure_line(name_, request_id_, error);
}

std::string batch_failure_line(
    const BatchAnswerName& name, const std::string& request_id, const Error& error
) {
  const ApiError api_error = to_api_error(error);
  return batch_answer_line(name, api_error.status, request_id, to_json(api_error));
}

}  // namespace millrace
