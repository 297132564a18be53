// The rotary embeddings of a config.json.
#pragma once

#include "base/json_fields.h"
#include "base/result.h"
#include "model/config.h"

namespace millrace {

inline constexpr IntRange kPositions{.min = 1, .max = 1 << 26};  // that a model may be made for

// Reads `rope_theta`, and `rope_scaling` or `rope_parameters`, into `config`. kUnsupported: a type
// that is neither default nor llama3, partial rotation, or parameters of single layers;
// kInvalidArgument: a number that is missing or out of range, or two types. `where` is the key.
Result<void> read_rope(JsonFields& fields, ModelConfig& config);

}  // namespace millrace
