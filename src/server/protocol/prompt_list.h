// One prompt or a list of them, as text or as token ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "server/protocol/generation_request.h"

namespace millrace {

struct PromptList {
  std::vector<PromptInput> prompts;  // at least one
  bool is_list = false;              // a list was given, if only of one
};

// A string or a list of strings, none empty. `path` names the field in errors.
Result<PromptList> read_text_prompts(
    std::string_view path, const json::value& value, int32_t num_prompts_max
);

// A list of token ids or a list of such lists, none empty, all ids below `vocab_size`.
Result<PromptList> read_id_prompts(
    std::string_view path, const json::value& value, int32_t num_prompts_max, int64_t vocab_size
);

// Whichever of these the value is.
Result<PromptList> read_prompts(
    std::string_view path, const json::value& value, int32_t num_prompts_max, int64_t vocab_size
);

// Token ids below `vocab_size`; may be empty.
Result<std::vector<TokenId>> read_token_list(
    std::string_view path, const json::value& value, int64_t vocab_size
);

}  // namespace millrace
