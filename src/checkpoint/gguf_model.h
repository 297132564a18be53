// What a GGUF file means: its metadata as a Hugging Face config.json, its tensors under Hugging
// Face's names, its vocabulary and chat template. So the rest of the program knows one kind of
// model.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "base/result.h"
#include "checkpoint/gguf.h"
#include "checkpoint/weight_source.h"
#include "text/gguf_vocabulary.h"

namespace millrace {

// The object that config.json would hold. Architectures: llama, qwen2, qwen3, qwen2moe, qwen3moe;
// others, metadata that would change the result and has no counterpart, and files without a context
// length or an epsilon of the norms are refused by name.
// The rotary factors that files of Llama 3.1 and later carry as a tensor become `rope_scaling`, if
// they are those of its formula. `eos_token_id` has the ends of a text, of a turn and of a message
// that keys name, and control tokens whose text is known to be one. Sizes are passed on as they
// stand: parse_model_config judges them.
Result<json::object> gguf_config(const GgufFile& file);

// none when the file has no `tokenizer.ggml.tokens`. Ids are checked to be within the vocabulary,
// and scores and types to be as many as tokens.
Result<std::optional<GgufVocabulary>> gguf_vocabulary(const GgufFile& file);

// `tokenizer.chat_template`.
Result<std::optional<std::string>> gguf_chat_template(const GgufFile& file);

// The tensors of `file`, which was parsed from `mapped`. Rows of llama's q and k projections, which
// the format stores in the order of interleaved rotary embeddings, come back in Hugging Face's
// order; a layer's experts, which are one tensor there, come back one by one.
Result<std::unique_ptr<WeightSource>> gguf_weights(MappedFile mapped, const GgufFile& file);

}  // namespace millrace
