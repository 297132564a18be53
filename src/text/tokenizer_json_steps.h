// The components of a tokenizer.json, read one by one. Each refuses by JSON path and name what is
// not offered. Source: the serialisation of Hugging Face `tokenizers`, version 1.0.
#pragma once

#include <optional>

#include "base/result.h"
#include "text/json_node.h"
#include "text/tokenizer_parts.h"

namespace millrace {

// A token of `added_tokens`, but for its id.
Result<AddedToken> read_token_content(const JsonNode& node);

Result<Normalizer> read_normalizer(const JsonNode& node);
Result<PreTokenizer> read_pre_tokenizer(const JsonNode& node);
Result<TextDecoder> read_decoder(const JsonNode& node);
Result<PostProcessor> read_post_processor(const JsonNode& node);

}  // namespace millrace
