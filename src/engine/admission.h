// Who may come in: counts what the accepted requests take of an engine's limits, and says which
// limit is in the way of another. A place is taken where it is looked for, so that of many requests
// at once no more come in than fit. Not thread-safe: Intake guards it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "engine/refusal.h"

namespace millrace {

// What the results of a request come to at their longest, in bytes.
struct ResultBytes {
  int64_t of_choice = 0;  // each
  int64_t of_prompt = 0;  // its logprobs

  int64_t total(int32_t n) const { return of_choice * n + of_prompt; }
};
// REQUIRES: sampling parameters that are valid. Pure.
ResultBytes result_bytes_max(const EngineRequest& request, const EngineLimits& limits);

// What a request takes.
struct Claim {
  int32_t num_seqs = 1;
  int64_t num_prompt_tokens = 0;  // once, however many choices share them
  ResultBytes result_bytes;
};

// Requests on their way to the engine thread: accepted, and in none of its numbers yet.
struct Arrivals {
  int32_t num_seqs_with_a_place = 0;  // among the running ones
  int32_t num_seqs_queued = 0;
  int64_t num_tokens = 0;  // of prompts, of those and these
  int64_t num_tokens_queued = 0;

  Arrivals& operator+=(const Arrivals& other);
  Arrivals& operator-=(const Arrivals& other);
};

class Admission {
 public:
  struct Refused {
    RefusalReason reason;
    std::string message;
  };

  explicit Admission(const EngineLimits& limits);

  // Whether a request may come in now, and if so as what. Nothing is taken yet.
  std::optional<Refused> check(const Claim& claim) const;
  Arrivals arrival_of(const Claim& claim) const;
  void take(const Claim& claim, const Arrivals& arrival);

  // A choice has ended; with the last of its request, the prompt's logprobs are let go of, too.
  void release(const ResultBytes& bytes, bool is_last);
  // How long outputs get: of a sequence that ended after it had begun.
  void note_output(int32_t num_output_tokens);

  // How things stood at the end of a step, in which the engine thread knew of `taken` for the first
  // time.
  struct Load {
    int32_t num_running = 0;
    int32_t num_waiting = 0;
    int64_t num_waiting_tokens = 0;
  };
  void update(const Load& load, const Arrivals& taken);

  int32_t num_live_seqs() const { return num_live_seqs_; }
  int32_t num_queued_seqs() const { return load_.num_waiting + arriving_.num_seqs_queued; }

  // When it is worth another try, at so many computed tokens a second: when what waits has been
  // computed, prompts and outputs of the usual length; 1 s if the speed is not known.
  std::chrono::seconds retry_after(double tokens_per_second) const;

 private:
  int32_t num_free_places() const;
  int64_t num_queued_tokens() const {
    return load_.num_waiting_tokens + arriving_.num_tokens_queued;
  }

  const AdmissionLimits limits_;
  const int32_t max_num_live_seqs_;
  const int32_t max_num_seqs_;

  int32_t num_live_seqs_ = 0;
  int64_t num_result_bytes_ = 0;
  Load load_;
  Arrivals arriving_;
  std::optional<double> usual_output_tokens_;  // of a sequence; an exponential mean
};

}  // namespace millrace
