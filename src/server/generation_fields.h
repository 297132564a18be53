// The fields of a request that say how to generate, as JSON states them: the sampling fields of the
// OpenAI and vLLM protocols. One parser for the command line's flags, its JSONL input and the
// server.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/generation_defaults.h"
#include "sampling/sampling_params.h"
#include "text/tokenizer.h"

namespace millrace {

constexpr double kTimeoutMax_s = 86400.0;

struct GenerationFields {
  SamplingParams sampling;
  std::vector<std::string> stop;  // text that ends a choice; not empty strings
  bool include_stop_str_in_output = false;
  bool skip_special_tokens = true;
  bool echo = false;  // the text begins with the prompt's
  // Whether the text goes on where the prompt's ends, as a completion's does and a chat's does not.
  bool continues_prompt = false;
  int32_t priority = 0;  // lower first
  std::optional<double> timeout_s;
};

// Whether a key is one of these fields.
bool is_generation_field(std::string_view name);

// Sets what the model's author recommends, but for the number of tokens. A temperature above what
// requests may ask for becomes that.
void apply_defaults(const GenerationDefaults& defaults, SamplingParams& sampling);

// Sets the fields that `object` names; null leaves a default. Keys that are no generation fields
// are the caller's. The error's `where` is the JSON path ("logit_bias.17"). Types and this parser's
// own bounds are checked here, ranges by validate(SamplingParams).
Result<void> read_generation_fields(
    const json::object& object, const Tokenizer& tokenizer, GenerationFields& fields
);

}  // namespace millrace
