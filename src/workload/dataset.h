// Where the requests of a load come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "workload/planned_request.h"
#include "workload/token_codec.h"

namespace millrace::bench {

// Thread-safe; a session is a pure function of the options and its index.
class Dataset {
 public:
  virtual ~Dataset() = default;
  // none: as many as are asked for.
  virtual std::optional<size_t> size() const = 0;
  // REQUIRES: index < size(). An error where the codec fails (a server's /tokenize).
  virtual Result<PlannedSession> session(size_t index) const = 0;
};

enum class RangeRatioMode {
  kVllm,    // [floor(L(1-r)), ceil(L(1+r))]
  kSglang,  // [max(1, int(L*r)), L]
};

// guidellm's prompt_tokens_stdev, _min and _max: a normal distribution around the length, cut to
// [min, max] (at 5 standard deviations where they are not said); without stdev uniform in between.
struct LengthSpread {
  std::optional<int64_t> stdev, min, max;
};

// Flags in the spelling of the tools that have them; each dataset refuses by name those that are
// set and that it has no use for. Lengths are in tokens, those that the server adds included.
//
//   random              words drawn at random, exactly as many tokens as asked for
//   random-ids          token ids that count up from a random one, as vLLM and SGLang draw them
//   emulated            as random, or slices of the text at `path` (guidellm; synthetic_text)
//   grid                "hi" hit_len times, a word of its own, then "hi" again (the published grid)
//   sharegpt            first question of each conversation of a JSON file
//   generated-shared-prefix, prefix_repetition    groups with a long beginning in common
//   custom, openai      JSONL: {"prompt", "output_tokens"}, {"messages"} or {"conversations"}
//   mooncake, timed_trace    JSONL with times, lengths and hash ids of blocks
//   burstgpt            CSV with times and lengths
//   sonnet              lines drawn from the text at `path` behind common ones
struct DatasetOptions {
  std::string name = "random";
  std::string path;                    // --dataset-path
  std::optional<size_t> num_sessions;  // none: no end, or as many as the file has
  uint64_t seed = 0;
  // A word or tokens at each random prompt's start that no other run has, so that no earlier run's
  // cache helps. none: only the seed decides, and the same prompts come again. Lengths are the
  // seed's alone. Of no effect on prompts that are read from a file.
  std::optional<uint64_t> nonce;
  std::optional<int64_t> input_len, output_len;    // none: 1024 and 128 where both are drawn
  LengthSpread input_spread, output_spread;        // "random" and "emulated"
  std::optional<double> range_ratio;               // none: 0
  std::optional<RangeRatioMode> range_ratio_mode;  // must be said when a ratio is
  int64_t prefix_len = 0;  // shared by all, in front of input_len; "sonnet": within it
  int64_t hit_len = 0;     // "grid": shared tokens at the start, then a word of its own
  std::optional<int64_t> sharegpt_output_len, sharegpt_context_len;
  bool sharegpt_rule_vllm = true;  // which pairs are dropped; false: SGLang's rule
  int64_t gsp_num_groups = 64, gsp_prompts_per_group = 16, gsp_system_prompt_len = 2048,
          gsp_question_len = 128, gsp_output_len = 256, gsp_num_turns = 1;
  bool gsp_is_ordered = false;
  std::optional<double> gsp_zipf_alpha;  // none: each group as often
  int64_t prefix_repetition_prefix_len = 256, prefix_repetition_suffix_len = 256,
          prefix_repetition_num_prefixes = 10, prefix_repetition_output_len = 128;
  double mooncake_slowdown = 1.0;  // of every trace
  int64_t num_turns = 1;           // "random", "emulated": of a session; each has its own lengths
  std::chrono::nanoseconds think_time{0};
  bool sends_token_ids = false;  // --tokenize-prompt
};

// Reads what is to be read. `codec` may be null where no length in tokens is asked for. Errors name
// the flag, or the file and its line. The dataset keeps the codec.
Result<std::unique_ptr<Dataset>> make_dataset(
    const DatasetOptions& options, std::shared_ptr<const TokenCodec> codec
);

}  // namespace millrace::bench
