#include "server/generation_call.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/prefetch.h"
#include "http/sse_writer.h"
#include "server/call_registry.h"
#include "server/engine_requests.h"
#include "server/protocol/api_error.h"
#include "server/refusal_log.h"

namespace millrace {
namespace {

// An answer with more logprobs than this takes milliseconds to word: not on an I/O thread.
constexpr size_t kLogprobsOfLargeAnswer = 4096;
constexpr size_t kLogprobBytes = 20;  // of JSON, some

// Events of one answer that are worded in one go, some 40 microseconds; and of one that begins.
// With 128 at once, a burst of 512 tokens costs a fifth more.
constexpr size_t kNewsAtOnce = 256;
constexpr size_t kNewsAtStart = 16;
// So many events' memory is kept for the next ones: more than a stream has that keeps up.
constexpr size_t kNewsKept = 16;
// More than an event of one token mostly has.
constexpr size_t kEventBytes = 512;
// At most, of what a writer reads for a token.
constexpr size_t kWriterBytes = 4 * kCacheLineBytes;

// The client's own id of a call, or that of its HTTP request.
const std::string& id_of(const GenerationRequest& request, const http::Exchange& exchange) {
  return request.request_id.empty() ? exchange.request().id : request.request_id;
}

size_t num_logprobs(const GenerationResult& result) {
  size_t count = 0;
  for (const PromptResult& prompt : result.prompts) {
    for (const auto& entries : prompt.prompt_logprobs) count += entries.size();
    for (const ChoiceResult& choice : prompt.choices) {
      for (const SampledToken& token : choice.tokens) count += token.logprobs.size();
    }
  }
  return count;
}

}  // namespace

// Where the events of one prompt go.
class GenerationCall::PromptSink final : public EventSink {
 public:
  PromptSink(std::shared_ptr<GenerationCall> call, size_t prompt)
      : call_(std::move(call)), prompt_(prompt) {}
  void on_event(EngineEvent event) override { call_->on_event(prompt_, std::move(event)); }
  void prefetch(size_t step) override { call_->prefetch_inbox(step); }

 private:
  std::shared_ptr<GenerationCall> call_;  // the other owner: its exchange
  size_t prompt_;
};

std::shared_ptr<GenerationCall> GenerationCall::make(
    const Services& services,
    GenerationRequest request,
    std::shared_ptr<http::Exchange> exchange,
    TimePoint arrival
) {
  return std::shared_ptr<GenerationCall>(
      new GenerationCall(services, std::move(request), std::move(exchange), arrival)
  );
}

GenerationCall::~GenerationCall() {
  services_.calls.remove(id_of(request_, *exchange_), *this);
}

GenerationCall::GenerationCall(
    const Services& services,
    GenerationRequest request,
    std::shared_ptr<http::Exchange> exchange,
    TimePoint arrival
)
    : services_(services),
      request_(std::move(request)),
      exchange_(std::move(exchange)),
      arrival_(arrival),
      writer_(make_answer_writer(
          request_,
          services_.text.tokenizer,
          make_identity(request_.api, id_of(request_, *exchange_))
      )) {}

void GenerationCall::start() {
  // It may have waited long for this thread, and its prompt may take long.
  if (exchange_->is_client_gone()) return log_end("client gone");
  services_.calls.add(id_of(request_, *exchange_), weak_from_this());
  exchange_->listen(shared_from_this());
  exchange_->on_client_gone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->leave();
  });
  const Result<void> submitted = submit_if_memory_lasts();
  if (!submitted) {
    detach();
    cancel_all();
    log_end("refused", &submitted.error());
    exchange_->respond(to_response(to_api_error(submitted.error())));
    return;
  }
  bool is_left = false;
  bool has_news = false;
  {
    const std::lock_guard lock(mutex_);
    is_started_ = true;
    is_left = is_detached_;
    has_news = !inbox_.empty();
  }
  if (is_left) log_end("client gone");
  if (has_news) exchange_->wake();
}

Result<void> GenerationCall::submit_if_memory_lasts() {
  try {
    Result<std::vector<EngineRequest>> requests = build_engine_requests(
        request_, services_.text, services_.engine.limits(), arrival_, services_.local_now()
    );
    return requests ? submit(*std::move(requests)) : requests.error();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

Result<void> GenerationCall::submit(std::vector<EngineRequest> requests) {
  progress_.emplace(services_.text.tokenizer, request_, requests);
  const auto num_choices = static_cast<size_t>(request_.num_choices());
  last_tokens_.resize(num_choices);
  stopped_by_text_.assign(num_choices, false);
  for (size_t i = 0; i < requests.size(); ++i) {
    auto sink = std::make_shared<PromptSink>(shared_from_this(), i);
    const Result<RequestId> id = services_.engine.submit(std::move(requests[i]), std::move(sink));
    if (!id) return id.error();
    if (add_id(*id)) continue;
    // The client left, or the call was aborted, before the engine knew of this prompt.
    services_.engine.cancel(*id);
  }
  return {};
}

// False: the call is to be cancelled.
bool GenerationCall::add_id(RequestId id) {
  const std::lock_guard lock(mutex_);
  ids_.push_back(id);
  return !is_detached_ && !is_aborted_;
}

void GenerationCall::abort() {
  {
    const std::lock_guard lock(mutex_);
    is_aborted_ = true;
  }
  cancel_all();
}

// The client has gone: nobody reads an answer. What the line says is start()'s until that is over.
void GenerationCall::leave() {
  const bool was_started = detach();
  cancel_all();
  if (was_started) log_end("client gone");
}

void GenerationCall::log_end(std::string_view outcome, const Error* error) {
  const bool is_our_fault = error != nullptr && error->code == ErrorCode::kInternal;
  if (!services_.logs_requests && !is_our_fault) return;
  const Usage usage = progress_ ? progress_->usage() : Usage();
  std::vector<LogField> fields = {
      {"request_id", id_of(request_, *exchange_)},
      {"client", exchange_->request().remote_address},
      {"path", exchange_->request().path()},
      {"outcome", outcome},
      {"prompt_tokens", usage.num_prompt_tokens},
      {"output_tokens", usage.num_output_tokens},
      {"total_ms", to_milliseconds(Clock::now() - arrival_)},
  };
  if (time_to_first_token_) fields.push_back({"ttft_ms", to_milliseconds(*time_to_first_token_)});
  const std::optional<ApiError> told =
      error != nullptr ? std::optional(to_api_error(*error)) : std::nullopt;
  if (told) append_error_fields(*told, fields);
  // The client is not told what went wrong inside.
  if (is_our_fault) fields.back().value = std::string_view(error->message);
  const LogLevel level = is_our_fault ? LogLevel::kError : LogLevel::kInfo;
  services_.log.write(level, is_our_fault ? "request failed" : "request", fields);
}

// Whether start() was over.
bool GenerationCall::detach() {
  std::vector<News> dropped;
  const std::lock_guard lock(mutex_);
  is_detached_ = true;
  dropped.swap(inbox_);
  return is_started_;
}

void GenerationCall::cancel_all() {
  std::vector<RequestId> ids;
  {
    const std::lock_guard lock(mutex_);
    ids = ids_;
  }
  for (const RequestId id : ids) services_.engine.cancel(id);
}

void GenerationCall::on_event(size_t prompt, EngineEvent event) {
  if (const auto* finished = std::get_if<FinishedEvent>(&event)) observe_end(prompt, *finished);
  News news{.prompt = prompt};
  if (auto* token = std::get_if<TokenEvent>(&event)) {
    news.event = std::move(*token);
  } else {
    news.event = std::make_unique<EngineEvent>(std::move(event));
  }
  {
    const std::lock_guard lock(mutex_);
    if (is_detached_) return;
    inbox_.push_back(std::move(news));
    if (!is_started_ || inbox_.size() > 1) return;
  }
  services_.wakes.add(*exchange_);
}

void GenerationCall::observe_end(size_t prompt, const FinishedEvent& event) {
  bool is_stopped_by_text = false;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_by_text = stopped_by_text_[static_cast<size_t>(index_of(prompt, event.choice))];
  }
  const FinishReason reason = is_stopped_by_text ? FinishReason::kStop : event.reason;
  services_.metrics.observe_finished(reason, event, request_.fields.sampling);
}

int32_t GenerationCall::index_of(size_t prompt, int32_t choice) const {
  return static_cast<int32_t>(prompt) * request_.fields.sampling.n + choice;
}

void GenerationCall::prefetch_inbox(size_t step) {
  if (step == 0) return prefetch_range(&exchange_, &progress_);
  if (step == 2) return exchange_->prefetch();
  millrace::prefetch(exchange_.get(), kCacheLineBytes);
  const std::lock_guard lock(mutex_);
  millrace::prefetch(inbox_.data(), sizeof(News));
}

void GenerationCall::prefetch(size_t step) {
  if (step == 0) {
    millrace::prefetch(this, kCacheLineBytes);
    prefetch_object(request_.fields.sampling.n);
    return prefetch_range(&request_.max_tokens, this + 1);
  }
  if (step == 1) millrace::prefetch(writer_.get(), kWriterBytes);
  const std::lock_guard lock(mutex_);
  if (!is_started_) return;
  if (step == 1) {
    millrace::prefetch(inbox_.data(), sizeof(News));
    millrace::prefetch(news_.data(), sizeof(News));
    millrace::prefetch(last_tokens_.data(), sizeof last_tokens_[0]);
    progress_->prefetch();
  } else {
    writer_->prefetch();
  }
}

// So much of one answer is worded in one go; then the others of this thread get their turn. A
// stream begins with less, so that its first token does not wait for those that follow at once.
void GenerationCall::on_wake() {
  const bool is_inbox_empty = fetch_news();
  const size_t num_at_once = is_streaming_ ? kNewsAtOnce : kNewsAtStart;
  const size_t end = std::min(news_.size(), num_news_told_ + num_at_once);
  if (num_news_told_ == end) return;
  std::string out;
  out.reserve(kEventBytes);
  while (num_news_told_ < end && !is_over()) take(news_[num_news_told_++], out);
  if (is_over()) return finish(out);
  if (!out.empty()) exchange_->write(out);
  if (num_news_told_ < news_.size() || !is_inbox_empty) exchange_->wake();
}

// Empties the inbox, if the news that were taken from it before have been told. False: it holds
// more, of which the engine thread has woken this one already and will not again.
bool GenerationCall::fetch_news() {
  const std::lock_guard lock(mutex_);
  if (is_detached_ || !is_started_) {
    num_news_told_ = news_.size();
    return true;
  }
  if (num_news_told_ == news_.size()) {
    num_news_told_ = 0;
    news_.clear();
    if (news_.capacity() > kNewsKept) news_ = std::vector<News>();
    news_.swap(inbox_);
  }
  return inbox_.empty();
}

void GenerationCall::take(News& news, std::string& out) {
  auto* token = std::get_if<TokenEvent>(&news.event);
  if (token == nullptr) return take_other(news, out);
  if (lacks_prompt_logprobs()) {
    held_.push_back(std::move(news));
  } else {
    take_token(news.prompt, *token, out);
  }
}

void GenerationCall::take_other(News& news, std::string& out) {
  EngineEvent& event = *std::get<std::unique_ptr<EngineEvent>>(news.event);
  if (auto* more = std::get_if<PromptLogprobsEvent>(&event)) {
    progress_->take_prompt_logprobs(news.prompt, *more);
    if (lacks_prompt_logprobs()) return;
    for (News& held : std::exchange(held_, {})) take(held, out);
    return;
  }
  const FinishedEvent& finished = std::get<FinishedEvent>(event);
  const bool is_failure =
      finished.reason != FinishReason::kStop && finished.reason != FinishReason::kLength;
  if (!is_failure && lacks_prompt_logprobs()) {
    held_.push_back(std::move(news));
  } else {
    take_end(news.prompt, finished, out);
  }
}

// A stream begins when the logprobs of all its prompts are there: they come with its first events.
bool GenerationCall::lacks_prompt_logprobs() const {
  return !is_streaming_ && request_.is_stream && request_.fields.sampling.prompt_logprobs &&
         progress_->lacks_prompt_logprobs();
}

void GenerationCall::take_token(size_t prompt, TokenEvent& event, std::string& out) {
  std::optional<GenerationProgress::News> news = progress_->take_token(prompt, event);
  if (!news) return;
  observe_token(news->choice, event.when);
  if (news->is_stopped_by_text) {
    {
      const std::lock_guard lock(mutex_);
      stopped_by_text_[static_cast<size_t>(news->choice)] = true;
    }
    services_.engine.cancel(event.request, event.choice);
  }
  tell(*news, out);
}

void GenerationCall::observe_token(int32_t index, TimePoint when) {
  std::optional<TimePoint>& last_token = last_tokens_[static_cast<size_t>(index)];
  if (!last_token) {
    services_.metrics.observe_first_token(when - arrival_);
    if (!time_to_first_token_) time_to_first_token_ = when - arrival_;
  } else if (when != *last_token) {  // of another step: speculation gives several in one
    services_.metrics.observe_inter_token(when - *last_token);
  }
  last_token = when;
}

void GenerationCall::take_end(size_t prompt, const FinishedEvent& event, std::string& out) {
  auto news = progress_->take_end(prompt, event, is_aborted());
  if (!news) return fail(news.error(), out);
  tell(*news, out);
}

bool GenerationCall::is_aborted() {
  const std::lock_guard lock(mutex_);
  return is_aborted_;
}

void GenerationCall::tell(const GenerationProgress::News& news, std::string& out) {
  if (request_.is_stream) return stream(news, out);
  progress_->keep(news);
}

void GenerationCall::stream(const GenerationProgress::News& news, std::string& out) {
  if (!is_streaming_) begin_stream(out);
  ChoiceDelta delta{.choice = news.choice, .text = news.text};
  if (news.token != nullptr) delta.tokens = {news.token, 1};
  if (news.text_offset) delta.text_offsets = {&*news.text_offset, 1};
  if (news.ending) {
    delta.ending = &*news.ending;
    delta.timings = &progress_->timings(news.choice);
  }
  // The prompt's text comes with the first of the choice's own.
  std::string echo = progress_->take_echo(news.choice);
  if (!echo.empty()) delta.text = echo.append(news.text);
  writer_->delta(delta, progress_->usage(), out);
}

void GenerationCall::begin_stream(std::string& out) {
  is_streaming_ = true;
  http::SseWriter(exchange_).begin();
  writer_->begin(progress_->prompts(), out);
  progress_->drop_prompts();
}

// Nothing more comes: the last bytes of a stream, or the whole answer.
void GenerationCall::finish(std::string& out) {
  detach();
  if (!is_failed_) log_end("finished");
  if (is_failed_ && !is_streaming_) return;  // the error was the answer
  if (!is_streaming_) return respond_whole();
  if (!is_failed_) writer_->end(progress_->usage(), out);
  exchange_->write(out);
  exchange_->finish();
}

// The whole call fails, with whatever else it has under way.
void GenerationCall::fail(const Error& error, std::string& out) {
  const ApiError api_error = to_api_error(error);
  is_failed_ = true;
  log_end("failed", &error);
  if (is_streaming_) {
    append_failure(to_json(api_error), out);
  } else {
    exchange_->respond(to_response(api_error));
  }
  cancel_all();
}

void GenerationCall::respond_whole() {
  auto result = std::make_shared<GenerationResult>(progress_->take_result());
  const auto respond = [self = shared_from_this(), result] {
    self->exchange_->respond(http::json_response(200, self->writer_->whole(*result)));
  };
  const size_t num_entries = num_logprobs(*result);
  const bool is_large = num_entries > kLogprobsOfLargeAnswer;
  if (!is_large || !services_.workers.try_post(respond, num_entries * kLogprobBytes)) respond();
}

}  // namespace millrace
