// One API call that generates: from its parsed request to the last byte of its answer.
//
// start() runs once, on any thread. From then on the engine thread puts events into the call's
// inbox, and the I/O thread of its connection takes them out, turns them into text and writes it.
// The exchange and the engine own the call; it is gone when both have let go.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "engine/engine.h"
#include "http/exchange.h"
#include "http/wake_batch.h"
#include "server/generation_progress.h"
#include "server/model_text.h"
#include "server/protocol/answer_writer.h"
#include "server/protocol/generation_request.h"
#include "server/protocol/generation_result.h"
#include "server/server_metrics.h"
#include "server/text_workers.h"

namespace millrace {

class CallRegistry;

class GenerationCall final : public http::WakeListener,
                             public std::enable_shared_from_this<GenerationCall> {
 public:
  // What calls use; it outlives all of them.
  struct Services {
    Engine& engine;
    const ModelText& text;
    ServerMetrics& metrics;
    TextWorkers& workers;
    CallRegistry& calls;
    http::WakeBatch& wakes;  // the engine thread's; sent at the end of each of its steps
    const std::function<std::chrono::local_seconds()>& local_now;  // for chat templates
    Log& log;
    bool logs_requests = false;  // a line for each call, not only for what went wrong here
  };

  // `arrival`: when the request came; time limits and the time to the first token count from there.
  static std::shared_ptr<GenerationCall> make(
      const Services& services,
      GenerationRequest request,
      std::shared_ptr<http::Exchange> exchange,
      TimePoint arrival
  );

  ~GenerationCall() override;
  GenerationCall(const GenerationCall&) = delete;
  GenerationCall& operator=(const GenerationCall&) = delete;

  // Renders, tokenizes and submits; answers with an error if that fails. Takes as long as the
  // prompts are large.
  void start();

  // Ends the call as its client's own wish, with what there is: finish reason "abort". Any thread.
  void abort();

 private:
  class PromptSink;
  // Most are tokens: the other events, which are large, lie elsewhere.
  struct News {
    size_t prompt = 0;
    std::variant<TokenEvent, std::unique_ptr<EngineEvent>> event;
  };

  GenerationCall(
      const Services& services,
      GenerationRequest request,
      std::shared_ptr<http::Exchange> exchange,
      TimePoint arrival
  );

  // On the thread of start().
  Result<void> submit_if_memory_lasts();
  Result<void> submit(std::vector<EngineRequest> requests);
  bool add_id(RequestId id);

  // On the engine thread.
  void on_event(size_t prompt, EngineEvent event);
  void prefetch_inbox(size_t step);
  void observe_end(size_t prompt, const FinishedEvent& event);

  // On the I/O thread.
  void on_wake() override;
  void prefetch(size_t step) override;
  bool fetch_news();
  void take(News& news, std::string& out);
  void take_other(News& news, std::string& out);
  bool lacks_prompt_logprobs() const;
  void take_token(size_t prompt, TokenEvent& event, std::string& out);
  void take_end(size_t prompt, const FinishedEvent& event, std::string& out);
  void observe_token(int32_t index, TimePoint when);
  void tell(const GenerationProgress::News& news, std::string& out);
  void stream(const GenerationProgress::News& news, std::string& out);
  void begin_stream(std::string& out);
  void finish(std::string& out);
  void fail(const Error& error, std::string& out);
  void respond_whole();

  // Any thread.
  void leave();
  void log_end(std::string_view outcome, const Error* error = nullptr);
  bool detach();
  void cancel_all();
  bool is_aborted();
  bool is_over() const { return is_failed_ || progress_->is_over(); }
  int32_t index_of(size_t prompt, int32_t choice) const;

  const Services services_;
  GenerationRequest request_;  // its prompts are let go of once they are tokenized
  const std::shared_ptr<http::Exchange> exchange_;
  const TimePoint arrival_;
  std::unique_ptr<AnswerWriter> writer_;

  std::mutex mutex_;  // guards the next block; never held while another object is called
  std::vector<RequestId> ids_;
  std::vector<News> inbox_;
  std::vector<bool> stopped_by_text_;  // [num_choices]
  bool is_started_ = false;            // everything is submitted: the inbox may be taken
  bool is_detached_ = false;           // nobody takes from the inbox any more
  bool is_aborted_ = false;

  // start()'s, then the I/O thread's.
  std::optional<GenerationProgress> progress_;         // from submit() on
  std::vector<std::optional<TimePoint>> last_tokens_;  // [num_choices]: when it came
  std::vector<News> news_;                             // taken from the inbox
  size_t num_news_told_ = 0;                           // of them
  std::vector<News> held_;                             // until the prompts' logprobs are there
  bool is_streaming_ = false;
  bool is_failed_ = false;
  std::optional<Duration> time_to_first_token_;
};

}  // namespace millrace
