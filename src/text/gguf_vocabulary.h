// The vocabulary of a GGUF file as its metadata states it, before it is understood. The checkpoint
// reader fills it; Tokenizer::from_gguf_vocabulary judges it.
// Source: the GGUF specification, section "Standardized key-value pairs", keys `tokenizer.ggml.*`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"

namespace millrace {

struct GgufVocabulary {
  std::string model;                     // tokenizer.ggml.model: "gpt2" or "llama"
  std::string pre;                       // tokenizer.ggml.pre; empty where the key is absent
  std::vector<std::string> tokens;       // tokenizer.ggml.tokens; the index is the id
  std::vector<float> scores;             // tokenizer.ggml.scores; empty, or one for each token
  std::vector<int32_t> token_types;      // tokenizer.ggml.token_type; empty, or one for each token
  std::vector<std::string> merges;       // tokenizer.ggml.merges, "left right", best first
  std::optional<TokenId> bos;            // tokenizer.ggml.bos_token_id
  std::optional<TokenId> eos;            // tokenizer.ggml.eos_token_id
  std::optional<TokenId> unknown;        // tokenizer.ggml.unknown_token_id
  std::optional<TokenId> padding;        // tokenizer.ggml.padding_token_id
  std::optional<bool> add_bos;           // tokenizer.ggml.add_bos_token
  std::optional<bool> add_eos;           // tokenizer.ggml.add_eos_token
  std::optional<bool> add_space_prefix;  // tokenizer.ggml.add_space_prefix
};

}  // namespace millrace
