#include "batch_run.h"

#include <chrono>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/bounded_queue.h"
#include "base/check.h"
#include "server/choice_text.h"

namespace millrace {
namespace {

// Room for what all live sequences can say while the main thread prints; the engine waits for it
// rather than lose an event.
constexpr size_t kQueuedEventsMax = 1 << 16;

// Puts every request's events into one queue.
class SharedQueue final : public EventSink {
 public:
  explicit SharedQueue(size_t capacity) : events_(capacity) {}
  void on_event(EngineEvent event) override { events_.push(std::move(event)); }
  EngineEvent next() {
    std::optional<EngineEvent> event = events_.pop();
    CHECK(event.has_value(), "the queue is closed at the end only");
    return *std::move(event);
  }
  void close() { events_.close(); }

 private:
  BoundedQueue<EngineEvent> events_;
};

// An item that is running.
struct LiveItem {
  size_t index = 0;
  std::vector<ChoiceText> texts;  // [n]
  ItemResult result;
};

class BatchRun {
 public:
  BatchRun(LocalModel& model, std::span<const BatchItem> items, const BatchCallbacks& callbacks)
      : model_(model),
        items_(items),
        callbacks_(callbacks),
        queue_(std::make_shared<SharedQueue>(kQueuedEventsMax)) {}

  // Where a callback threw, the engine must not wait for events to be taken.
  ~BatchRun() { queue_->close(); }
  BatchRun(const BatchRun&) = delete;
  BatchRun& operator=(const BatchRun&) = delete;

  void run() {
    while (num_reported_ < items_.size() && !is_stopped_) {
      while (next_ < items_.size() && !is_stopped_ && submit_next()) {
      }
      if (!live_.empty() && !is_stopped_) take(queue_->next());
    }
  }

 private:
  // False: the engine is full; try again when something has finished.
  bool submit_next() {
    const BatchItem& item = items_[next_];
    if (item.error) {
      finish(next_++, {.error = item.error});
      return true;
    }
    EngineRequest request{
        .prompt = item.prompt,
        .sampling = item.fields.sampling,
        .priority = item.fields.priority,
        .deadline = deadline_of(item.fields),
    };
    const Result<RequestId> id = model_.engine->submit(std::move(request), queue_);
    if (!id) {
      if (id.error().code == ErrorCode::kResourceExhausted && !live_.empty()) return false;
      finish(next_++, {.error = id.error()});
      return true;
    }
    LiveItem& live = live_[*id];
    live.index = next_++;
    const auto n = static_cast<size_t>(item.fields.sampling.n);
    live.texts.reserve(n);
    live.result.choices.resize(n);
    const std::shared_ptr<const StopStrings> stops = stop_strings_of(item.fields);
    for (size_t i = 0; i < n; ++i) {
      live.texts.emplace_back(model_.text.tokenizer, item.fields, item.prompt, stops);
      show(live, i, live.texts[i].take_echo().text);
    }
    return true;
  }

  static std::optional<TimePoint> deadline_of(const GenerationFields& fields) {
    if (!fields.timeout_s) return std::nullopt;
    const std::chrono::duration<double> timeout(*fields.timeout_s);
    return Clock::now() + std::chrono::duration_cast<Duration>(timeout);
  }

  void take(EngineEvent event) {
    const auto found = live_.find(request_of(event));
    CHECK(found != live_.end(), "an event of a request that is over");
    LiveItem& live = found->second;
    if (auto* token = std::get_if<TokenEvent>(&event)) {
      take_token(live, std::move(*token));
    } else if (auto* logprobs = std::get_if<PromptLogprobsEvent>(&event)) {
      for (auto& entry : logprobs->logprobs) {
        live.result.prompt_logprobs.push_back(std::move(entry));
      }
    } else {
      const auto& finished = std::get<FinishedEvent>(event);
      take_end(live, finished);
      if (finished.num_choices_unfinished > 0) return;
      const size_t index = live.index;
      ItemResult result = std::move(live.result);
      live_.erase(found);
      finish(index, std::move(result));
    }
  }

  void take_token(LiveItem& live, TokenEvent event) {
    const auto index = static_cast<size_t>(event.choice);
    ItemChoice& choice = live.result.choices[index];
    ChoiceText& text = live.texts[index];
    if (text.stop_string()) return;  // computed before the engine heard of the stop string
    choice.token_ids.push_back(event.token.id);
    if (!event.token.logprobs.empty()) choice.logprobs.push_back(std::move(event.token.logprobs));
    show(live, index, text.push(event));
    if (text.stop_string()) model_.engine->cancel(event.request, event.choice);
  }

  void take_end(LiveItem& live, const FinishedEvent& finished) {
    const auto index = static_cast<size_t>(finished.choice);
    ItemChoice& choice = live.result.choices[index];
    show(live, index, live.texts[index].finish());
    choice.stop_string = live.texts[index].stop_string();
    choice.finished = finished;
    if (choice.stop_string) choice.finished.reason = FinishReason::kStop;
  }

  void show(LiveItem& live, size_t choice, std::string_view text) {
    if (text.empty()) return;
    live.result.choices[choice].text += text;
    if (choice != 0 || !callbacks_.on_text) return;
    if (!callbacks_.on_text(live.index, std::string(text))) is_stopped_ = true;
  }

  // Keeps a result until all before it have been handed out.
  void finish(size_t index, ItemResult result) {
    finished_.emplace(index, std::move(result));
    for (auto first = finished_.begin(); first != finished_.end() && first->first == num_reported_;
         first = finished_.erase(first)) {
      if (!callbacks_.on_result(first->first, first->second)) is_stopped_ = true;
      ++num_reported_;
    }
  }

  LocalModel& model_;
  std::span<const BatchItem> items_;
  const BatchCallbacks& callbacks_;
  std::shared_ptr<SharedQueue> queue_;  // the engine is the other owner
  std::unordered_map<RequestId, LiveItem> live_;
  std::map<size_t, ItemResult> finished_;  // not handed out yet
  size_t next_ = 0;                        // the first item that has not been submitted
  size_t num_reported_ = 0;
  bool is_stopped_ = false;  // by a callback
};

}  // namespace

void run_batch(
    LocalModel& model, std::span<const BatchItem> items, const BatchCallbacks& callbacks
) {
  BatchRun(model, items, callbacks).run();
}

}  // namespace millrace
