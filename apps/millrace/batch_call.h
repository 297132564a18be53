// One request of a batch: from its line to the line of its answer. Made by one thread and then used
// by another.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"
#include "server/generation_progress.h"
#include "server/model_text.h"
#include "server/protocol/answer_writer.h"
#include "server/protocol/batch_line.h"
#include "server/protocol/generation_request.h"

namespace millrace {

class BatchCall {
 public:
  struct Context {
    const RequestContext& requests;
    const std::function<std::chrono::local_seconds()>& local_now;
    uint64_t seed = 0;       // of requests that state none
    std::string request_id;  // of the answer
  };

  // Reads, renders and tokenizes. The error: what a server would answer.
  static Result<std::unique_ptr<BatchCall>> make(
      const BatchRequestLine& line, const BatchAnswerName& name, const Context& context
  );
  BatchCall(const BatchCall&) = delete;
  BatchCall& operator=(const BatchCall&) = delete;

  // The prompts that the engine has not been given yet, in order.
  bool is_submitted() const { return ids_.size() == prompts_.size(); }
  size_t next_prompt() const { return ids_.size(); }
  // A copy: the engine may refuse it for now.
  EngineRequest next_request() const;
  void on_submitted(RequestId id) { ids_.push_back(id); }
  const std::vector<RequestId>& ids() const { return ids_; }

  // What happened to a prompt. The choice that is to be cancelled, if text came to a stop string;
  // the error: why the whole call fails.
  Result<std::optional<int32_t>> take(size_t prompt, EngineEvent event);
  bool is_over() const { return is_submitted() && progress_->is_over(); }
  const Usage& usage() const { return progress_->usage(); }

  const BatchAnswerName& name() const { return name_; }
  // Once it is over.
  std::string answer_line();
  // At any time instead.
  std::string failure_line(const Error& error) const;

 private:
  BatchCall(GenerationRequest request, BatchAnswerName name, std::string request_id);

  GenerationRequest request_;
  BatchAnswerName name_;
  std::string request_id_;
  std::vector<EngineRequest> prompts_;
  std::vector<RequestId> ids_;  // of the prompts that were submitted
  std::unique_ptr<AnswerWriter> writer_;
  std::optional<GenerationProgress> progress_;
};

// The answer of a server that refuses or fails a request.
std::string batch_failure_line(
    const BatchAnswerName& name, const std::string& request_id, const Error& error
);

}  // namespace millrace
