#include "loadgen/request_feed.h"

#include <fmt/format.h>
#include <pthread.h>

#include <ctime>
#include <utility>

namespace millrace::bench {
namespace {

double thread_cpu_seconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

RequestFeed::RequestFeed(FeedOptions options)
    : options_(std::move(options)),
      num_ahead_max_(options_.num_sessions ? kRequestsMax : kEndlessRequestsMax),
      next_index_(options_.first_index) {}

RequestFeed::~RequestFeed() = default;

void RequestFeed::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    ::pthread_setname_np(::pthread_self(), "load-build");
    run(stop);
  });
}

void RequestFeed::run(const std::stop_token& stop) {
  for (int64_t i = 0; !options_.num_sessions || i < *options_.num_sessions; ++i) {
    const int64_t number = options_.num_distinct ? i % *options_.num_distinct : i;
    Result<std::unique_ptr<SessionRun>> built = build(options_.first_session + number);
    cpu_seconds_.store(thread_cpu_seconds(), std::memory_order_relaxed);
    std::unique_lock lock(mutex_);
    if (!built) {
      error_ = built.error();
      break;
    }
    if (*built == nullptr) break;
    num_bytes_ += (*built)->bytes.size();
    ready_.push_back(std::move(*built));
    news_.notify_all();
    is_waiting_for_room_ = is_full();
    if (is_waiting_for_room_ && !room_.wait(lock, stop, [&] { return has_much_room(); })) break;
    is_waiting_for_room_ = false;
    if (stop.stop_requested()) break;
  }
  const std::lock_guard lock(mutex_);
  is_built_ = true;
  news_.notify_all();
}

Result<void> RequestFeed::wait_ready(size_t num_sessions, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  news_.wait(lock, stop, [&] { return is_built_ || is_full() || ready_.size() >= num_sessions; });
  if (error_) return *error_;
  return {};
}

RequestFeed::Taken RequestFeed::take() {
  const std::lock_guard lock(mutex_);
  if (ready_.empty()) return {.run = nullptr, .is_exhausted = is_built_};
  Taken taken{.run = std::move(ready_.front())};
  ready_.pop_front();
  num_bytes_ -= taken.run->bytes.size();
  if (is_waiting_for_room_ && has_much_room()) room_.notify_one();
  return taken;
}

bool RequestFeed::is_exhausted() const {
  const std::lock_guard lock(mutex_);
  return is_built_ && ready_.empty();
}

std::optional<int64_t> RequestFeed::num_requests() const {
  const std::lock_guard lock(mutex_);
  if (!is_built_) return std::nullopt;
  return next_index_ - options_.first_index;  // the builder has ended: it writes no more
}

std::optional<Error> RequestFeed::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

// From the phase's start; none: the arrivals have ended.
Result<std::optional<Nanos>> RequestFeed::due_of(const PlannedSession& session) {
  if (options_.arrivals != nullptr) return options_.arrivals->next();
  if (!options_.is_trace) return std::optional<Nanos>(Nanos(0));
  const std::optional<Nanos> at = session.turns.front().at;
  if (!at) return invalid_argument("it has no time, which a trace must give");
  if (!trace_start_) trace_start_ = *at;
  return std::optional<Nanos>(*at - *trace_start_);
}

// Null: the arrivals have ended.
Result<std::unique_ptr<SessionRun>> RequestFeed::build(int64_t number) {
  const auto failed = [&](Error error) {
    error.message = fmt::format("session {} of the dataset: {}", number, error.message);
    return error;
  };
  Result<PlannedSession> plan = options_.dataset->session(static_cast<size_t>(number));
  if (!plan) return failed(plan.error());
  if (plan->turns.empty()) return failed(invalid_argument("it has no turns"));
  const Result<std::optional<Nanos>> due = due_of(*plan);
  if (!due) return failed(due.error());
  if (!*due) return std::unique_ptr<SessionRun>();
  if (options_.has_one_turn) plan->turns.resize(1);
  auto run = std::make_unique<SessionRun>(SessionRun{
      .session = number,
      .first_index = next_index_,
      .phase = options_.phase,
      .due = **due,
      .conversation = Conversation(options_.protocol),
  });
  next_index_ += static_cast<int64_t>(plan->turns.size());
  PlannedRequest& first = plan->turns.front();
  if (Result<void> added = run->conversation.add_prompt(first.prompt); !added) {
    return failed(added.error());
  }
  run->bytes = options_.writer->write(run->conversation, first.num_output_tokens);
  first.prompt = std::string();
  run->plan = std::move(*plan);
  if (!run->has_later_turn()) run->conversation = Conversation(options_.protocol);
  return run;
}

}  // namespace millrace::bench
