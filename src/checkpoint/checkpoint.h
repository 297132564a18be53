// Opening a model: one place that knows what a model may look like on disk.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/weight_source.h"
#include "text/gguf_vocabulary.h"

namespace millrace {

// A GGUF file without tensors in a directory with config.json: the vocabulary and the chat
// template.
inline constexpr const char* kGgufVocabularyFile = "vocabulary.gguf";

struct CheckpointOptions {
  bool with_weights =
      true;  // false: the configuration alone, as dummy weights and planning need it
};

struct Checkpoint {
  std::string path;                          // as it was given
  json::object config;                       // config.json, or a GGUF file's metadata in its words
  json::object generation_config;            // generation_config.json; empty when there is none
  std::unique_ptr<WeightSource> weights;     // null without `with_weights`
  std::optional<GgufVocabulary> vocabulary;  // of a GGUF file; a directory has tokenizer.json
  std::optional<std::string> chat_template;  // Jinja source
};

// `path`: a directory as Hugging Face lays it out (config.json and safetensors), a .gguf file, or a
// directory that holds one .gguf file and no config.json. Checkpoints that AWQ, GPTQ, FP8 or
// compressed-tensors have quantized appear as plain ones, their configuration and their weights
// (checkpoint/quantized/). Nothing is ever executed, no pickle file
// is opened, and no file outside the directory. Weights are mapped, and read when they are asked
// for.
Result<Checkpoint> open_checkpoint(const std::string& path, const CheckpointOptions& options = {});

}  // namespace millrace
