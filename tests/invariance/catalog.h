// The requests that mixes are made of, each with what it says alone: prompts that begin alike,
// repeat each other to the token, are the beginning of others, or continue a chat (a prompt, its
// answer and more). A function of model, options and seed.
#pragma once

#include <optional>
#include <vector>

#include "base/rng.h"
#include "lone_run.h"
#include "sched/request.h"
#include "test_models.h"

namespace millrace {

struct CatalogEntry {
  Request request;               // without id, arrival and root, which a mix gives it
  std::vector<LoneRun> alone;    // [n]
  std::optional<size_t> parent;  // the entry whose chat it continues

  int32_t num_tokens_max() const {
    return static_cast<int32_t>(request.prompt.size()) + request.sampling.max_tokens;
  }
};

struct CatalogOptions {
  size_t num_entries = 0;
  int32_t num_prompt_tokens_max = 0;
  int32_t num_output_tokens_max = 0;
  uint64_t seed = 0;
};

std::vector<CatalogEntry> make_catalog(TestModel& model, const CatalogOptions& options);

}  // namespace millrace
