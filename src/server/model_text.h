// The text side of a model: what turns text and chats into token ids and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace millrace {

struct ModelText {
  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat_template;  // none: the model takes plain text only
  std::optional<TokenId> eos_token_id;        // of the tokenizer's eos_token; none: it is no token
};

struct ModelTextOptions {
  std::string model;                              // directory or .gguf file
  std::optional<std::string> tokenizer;           // a place to take the tokenizer from instead
  std::optional<std::string> chat_template_file;  // Jinja source that replaces the model's own
};

// For text alone: a directory needs no more than a tokenizer.json, and of a GGUF file only the
// metadata is read.
Result<ModelText> load_model_text(const ModelTextOptions& options);

// For a model whose checkpoint is open. With `dummy_vocab_size` a directory without a tokenizer
// gets a placeholder, of one token a byte: for models with dummy weights.
Result<ModelText> load_model_text(
    const ModelTextOptions& options,
    const Checkpoint& checkpoint,
    std::optional<int64_t> dummy_vocab_size
);

}  // namespace millrace
