// The sampling that a model's author recommends: generation_config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/id.h"
#include "base/json.h"
#include "base/result.h"

namespace millrace {

// Defaults for requests that do not say; none where the file does not say either.
struct GenerationDefaults {
  std::optional<float> temperature;
  std::optional<int32_t> top_k;  // 0 or -1: all
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<int32_t> max_new_tokens;
  std::vector<TokenId> eos_token_ids;  // beside those of config.json
  std::optional<TokenId> bos_token_id;
};

// Reads the object of generation_config.json; an empty one gives no defaults. As in vLLM, the six
// values above are taken as they stand and `do_sample` is not read: a request that says nothing is
// sampled, unless the file itself states temperature 0. Every range is checked; the error's `where`
// is the key.
Result<GenerationDefaults> parse_generation_defaults(
    const json::object& object, int64_t vocab_size
);

}  // namespace millrace
