#include "offline_batch.h"

#include <fmt/format.h>

#include <deque>
#include <random>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/bounded_queue.h"
#include "base/check.h"
#include "base/error_reason.h"
#include "batch_call.h"
#include "server/field_error.h"

namespace millrace {
namespace {

// Room for what all sequences can say while the main thread writes; the engine waits for it rather
// than lose an event.
constexpr size_t kQueuedNewsMax = 1 << 16;

// A line that is read: a call to be run, or its answer already.
struct ReadLine {
  std::unique_ptr<BatchCall> call;
  std::string answer;
  uint64_t num_bytes = 0;  // of the input, with the lines that were answered before
  int64_t num_answered_before = 0;
  int64_t num_failed_before = 0;
  bool is_duplicate = false;  // an earlier line has its custom_id
};

struct EndOfInput {
  std::optional<Error> error;
  ReadLine last;  // the lines that were answered before and followed by no other
};

struct CallEvent {
  uint64_t line_number = 0;
  size_t prompt = 0;
  EngineEvent event;
};

struct Interruption {};

using News = std::variant<ReadLine, EndOfInput, CallEvent, Interruption>;
using NewsQueue = BoundedQueue<News>;

// Where the events of one prompt go.
class PromptSink final : public EventSink {
 public:
  PromptSink(std::shared_ptr<NewsQueue> queue, uint64_t line_number, size_t prompt)
      : queue_(std::move(queue)), line_number_(line_number), prompt_(prompt) {}
  void on_event(EngineEvent event) override {
    queue_->push(CallEvent{line_number_, prompt_, std::move(event)});
  }

 private:
  std::shared_ptr<NewsQueue> queue_;  // the other owner: the batch
  uint64_t line_number_;
  size_t prompt_;
};

// Ids that no other run gives, so that two files of answers may be put together.
std::string make_run_name() {
  std::random_device random;
  return fmt::format("batch-{:08x}{:08x}", random(), random());
}

// Two threads: one reads lines, renders and tokenizes ahead; that of run() submits, collects events
// and writes answers. They talk through the queue.
class OfflineBatch {
 public:
  OfflineBatch(
      LocalModel& model,
      JsonlInput& input,
      BatchOutput& output,
      AnsweredRequests& answered,
      const OfflineBatchOptions& options
  )
      : model_(model),
        input_(input),
        output_(output),
        answered_(answered),
        options_(options),
        request_context_{
            .text = model.text,
            .limits = model.engine->limits(),
            .defaults = model.defaults,
            .served_model_names = options_.model_names,
        },
        run_name_(make_run_name()),
        news_(std::make_shared<NewsQueue>(kQueuedNewsMax)),
        slots_(options_.num_requests_at_once) {}

  // Nobody may be left waiting for a queue that nobody empties, and the reader not for more input.
  ~OfflineBatch() {
    news_->close();
    slots_.close();
    input_.interrupt();
  }
  OfflineBatch(const OfflineBatch&) = delete;
  OfflineBatch& operator=(const OfflineBatch&) = delete;

  Result<BatchProgress> run(const std::stop_token& stop);

 private:
  struct LiveCall {
    std::unique_ptr<BatchCall> call;
    uint64_t num_bytes = 0;  // of the input
  };

  // The reader's.
  void read_lines();
  bool is_answered_before(const BatchRequestLine& line, uint64_t number, ReadLine& read);
  void prepare(const BatchRequestLine& line, uint64_t number, ReadLine& read);

  // run()'s.
  Result<void> take(ReadLine line);
  Result<void> take(EndOfInput end);
  Result<void> take(CallEvent event);
  Result<void> take(Interruption);
  void account_skipped(const ReadLine& line);
  Result<void> submit_waiting();
  Result<void> fail(uint64_t line_number, const Error& error);
  Result<void> finish(uint64_t line_number, const std::string& line, bool is_failed);
  Result<void> write(const std::string& line, bool is_failed, uint64_t num_bytes);
  bool is_over() const { return progress_.is_interrupted || (is_input_over_ && live_.empty()); }

  LocalModel& model_;
  JsonlInput& input_;
  BatchOutput& output_;
  AnsweredRequests& answered_;  // the reader's
  const OfflineBatchOptions& options_;
  const RequestContext request_context_;
  const std::string run_name_;
  const std::shared_ptr<NewsQueue> news_;  // the other owners: what the engine holds
  BoundedQueue<std::monostate> slots_;     // one for each request that is read and not answered

  std::unordered_map<uint64_t, LiveCall> live_;  // by line number
  std::deque<BatchCall*> waiting_;               // of them, what the engine has not got whole
  int64_t num_live_seqs_ = 0;                    // of this batch in the engine
  bool is_engine_full_ = false;                  // until something has finished
  bool is_input_over_ = false;
  BatchProgress progress_;

  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
  std::jthread reader_;  // last: it uses all of the above
};

Result<BatchProgress> OfflineBatch::run(const std::stop_token& stop) {
  on_stop_.emplace(stop, [this] { news_->push(Interruption{}); });
  const TimePoint start = Clock::now();
  reader_ = std::jthread([this] { read_lines(); });
  while (!is_over()) {
    std::optional<News> news = news_->pop();
    CHECK(news.has_value(), "the queue is closed at the end only");
    auto taken = std::visit([this](auto one) { return take(std::move(one)); }, *std::move(news));
    if (taken) taken = submit_waiting();
    if (!taken) return taken.error();
    progress_.duration = Clock::now() - start;
  }
  if (auto synced = output_.sync(); !synced) return synced.error();
  return progress_;
}

void OfflineBatch::read_lines() {
  ReadLine read;
  uint64_t num_bytes_told = 0;
  while (slots_.push({}) == PushResult::kPushed) {
    BatchRequestLine request;
    Result<JsonlLine> line = input_.next();
    for (; line; line = input_.next()) {
      if (line->kind == JsonlLine::Kind::kLine) {
        request = read_batch_request(line->text);
      } else if (line->kind == JsonlLine::Kind::kTooLong) {
        request = {};
        request.error = invalid_argument("the line is too long", "", error_reason::kInvalidJson);
      } else {
        break;
      }
      read.num_bytes = line->bytes_read - num_bytes_told;
      if (!is_answered_before(request, line->number, read)) break;
    }
    if (!line || line->kind == JsonlLine::Kind::kEnd ||
        line->kind == JsonlLine::Kind::kInterrupted) {
      EndOfInput end{.error = std::nullopt, .last = std::move(read)};
      if (!line) end.error = line.error();
      news_->push(std::move(end));
      return;
    }
    num_bytes_told = line->bytes_read;
    prepare(request, line->number, read);
    news_->push(std::exchange(read, {}));
  }
}

// Whether the line needs nothing more. One that has no custom_id of its own is known by its number.
bool OfflineBatch::is_answered_before(
    const BatchRequestLine& line, uint64_t number, ReadLine& read
) {
  using State = AnsweredRequests::State;
  State state = line.custom_id ? answered_.see(*line.custom_id) : answered_.see_line(number);
  read.is_duplicate = state == State::kDuplicate;
  if (read.is_duplicate) state = answered_.see_line(number);
  if (state == State::kAnswered) ++read.num_answered_before;
  if (state == State::kFailed) ++read.num_failed_before;
  return state != State::kNew;
}

void OfflineBatch::prepare(const BatchRequestLine& line, uint64_t number, ReadLine& read) {
  BatchAnswerName name{.line_number = number, .custom_id = line.custom_id};
  if (read.is_duplicate) {
    const Error error = invalid_argument(
        fmt::format(
            "line {} has the custom_id of a line before it: {}", number, quoted(*line.custom_id)
        ),
        "custom_id",
        "duplicate_custom_id"
    );
    name.custom_id.reset();
    read.answer = batch_error_line(name, error);
    return;
  }
  if (line.error) {
    Error error = *line.error;
    error.message = fmt::format("line {}: {}", number, error.message);
    read.answer = batch_error_line(name, error);
    return;
  }
  const std::string request_id = fmt::format("{}-{}", run_name_, number);
  Result<std::unique_ptr<BatchCall>> call = BatchCall::make(
      line,
      name,
      {.requests = request_context_,
       .local_now = options_.local_now,
       .seed = options_.seed,
       .request_id = request_id}
  );
  if (call) {
    read.call = *std::move(call);
  } else {
    read.answer = batch_failure_line(name, request_id, call.error());
  }
}

Result<void> OfflineBatch::take(ReadLine line) {
  account_skipped(line);
  if (line.call == nullptr) return write(line.answer, true, line.num_bytes);
  waiting_.push_back(line.call.get());
  const uint64_t number = line.call->name().line_number;
  live_.emplace(number, LiveCall{std::move(line.call), line.num_bytes});
  return {};
}

Result<void> OfflineBatch::take(EndOfInput end) {
  account_skipped(end.last);
  progress_.num_input_bytes += end.last.num_bytes;
  is_input_over_ = true;
  return end.error ? Result<void>(*end.error) : Result<void>();
}

void OfflineBatch::account_skipped(const ReadLine& line) {
  progress_.num_answered_before += line.num_answered_before;
  progress_.num_failed_before += line.num_failed_before;
}

Result<void> OfflineBatch::take(CallEvent event) {
  if (std::holds_alternative<FinishedEvent>(event.event)) {
    --num_live_seqs_;
    is_engine_full_ = false;
  }
  const auto found = live_.find(event.line_number);
  if (found == live_.end()) return {};  // failed already; the rest of it was cancelled
  BatchCall& call = *found->second.call;
  const RequestId id = request_of(event.event);
  const Result<std::optional<int32_t>> stopped = call.take(event.prompt, std::move(event.event));
  if (!stopped) return fail(event.line_number, stopped.error());
  if (*stopped) model_.engine->cancel(id, **stopped);
  if (!call.is_over()) return {};
  progress_.num_prompt_tokens += call.usage().num_prompt_tokens;
  progress_.num_output_tokens += call.usage().num_output_tokens;
  return finish(event.line_number, call.answer_line(), false);
}

Result<void> OfflineBatch::take(Interruption) {
  progress_.is_interrupted = true;
  for (const auto& [number, live] : live_) {
    for (const RequestId id : live.call->ids()) model_.engine->cancel(id);
  }
  return {};
}

// As far as the engine takes it, in the file's order.
Result<void> OfflineBatch::submit_waiting() {
  while (!waiting_.empty() && !is_engine_full_ && !progress_.is_interrupted) {
    BatchCall& call = *waiting_.front();
    const uint64_t number = call.name().line_number;
    EngineRequest request = call.next_request();
    const int32_t n = request.sampling.n;
    auto sink = std::make_shared<PromptSink>(news_, number, call.next_prompt());
    const Result<RequestId> id = model_.engine->submit(std::move(request), std::move(sink));
    if (id) {
      num_live_seqs_ += n;
      call.on_submitted(*id);
      if (call.is_submitted()) waiting_.pop_front();
      continue;
    }
    is_engine_full_ = id.error().code == ErrorCode::kResourceExhausted && num_live_seqs_ > 0;
    if (is_engine_full_) return {};
    if (auto failed = fail(number, id.error()); !failed) return failed;
  }
  return {};
}

// Ends the whole call, with whatever else it has under way.
Result<void> OfflineBatch::fail(uint64_t line_number, const Error& error) {
  const BatchCall& call = *live_.at(line_number).call;
  for (const RequestId id : call.ids()) model_.engine->cancel(id);
  // Only the first of those that wait can have been submitted in part.
  if (!waiting_.empty() && waiting_.front() == &call) waiting_.pop_front();
  return finish(line_number, call.failure_line(error), true);
}

Result<void> OfflineBatch::finish(uint64_t line_number, const std::string& line, bool is_failed) {
  const auto found = live_.find(line_number);
  const uint64_t num_bytes = found->second.num_bytes;
  live_.erase(found);
  return write(line, is_failed, num_bytes);
}

Result<void> OfflineBatch::write(const std::string& line, bool is_failed, uint64_t num_bytes) {
  if (auto written = output_.append(line); !written) return written;
  slots_.try_pop();
  ++(is_failed ? progress_.num_failed : progress_.num_answered);
  progress_.num_input_bytes += num_bytes;
  if (options_.on_progress) options_.on_progress(progress_);
  return {};
}

}  // namespace

Result<BatchProgress> run_offline_batch(
    LocalModel& model,
    JsonlInput& input,
    BatchOutput& output,
    AnsweredRequests& answered,
    const OfflineBatchOptions& options,
    const std::stop_token& stop
) {
  return OfflineBatch(model, input, output, answered, options).run(stop);
}

}  // namespace millrace
