// The real models that tests run: the default model from the user's cache and the small one beside
// the checkout. A test is skipped, with what is missing, where a model cannot be had.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/local_model.h"

namespace millrace {

// nullopt: not on this machine.
std::optional<std::string> stories_path();
std::optional<std::string> smollm2_path();

// How one engine is set up; what differs between engines must not show in any result.
struct EngineSetup {
  int32_t max_num_batched_tokens = 512;
  int32_t long_prefill_token_threshold = 256;
  int32_t max_num_seqs = 16;
  int32_t block_size = 16;
  std::optional<int64_t> kv_cache_bytes = std::nullopt;
  std::optional<int32_t> max_model_len = std::nullopt;
  size_t num_threads = 2;
  std::optional<DType> dtype = std::nullopt;
  std::optional<NgramSpeculation> speculation = std::nullopt;
};

LocalModel load_model(const std::string& path, const EngineSetup& setup);

// What one choice of a request came to.
struct Generated {
  std::vector<TokenId> tokens;
  std::vector<std::vector<TokenLogprob>> logprobs;
  FinishReason reason = FinishReason::kStop;
  int32_t num_preemptions = 0;
  int32_t num_cached_tokens = 0;

  // How it was computed may differ, what was computed may not.
  friend bool operator==(const Generated& a, const Generated& b) {
    return a.tokens == b.tokens && a.logprobs == b.logprobs && a.reason == b.reason;
  }
};

// Submits all requests at once; the choices of each, in order.
std::vector<std::vector<Generated>> generate_together(
    Engine& engine, const std::vector<EngineRequest>& requests
);

// Submits one request after the other has ended.
std::vector<std::vector<Generated>> generate_alone(
    Engine& engine, const std::vector<EngineRequest>& requests
);

}  // namespace millrace
