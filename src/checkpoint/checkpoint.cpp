#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/printable.h"
#include "checkpoint/quantized/quantization_config.h"
#include "checkpoint/quantized/quantized_weights.h"
#include "checkpoint/safetensors.h"

namespace millrace {
namespace {

constexpr size_t kJsonBytesMax = 64 << 20;
constexpr size_t kTemplateBytesMax = 4 << 20;

Result<Checkpoint> open_gguf(const std::string& path, const CheckpointOptions& options) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) return mapped.error();
  const Result<GgufFile> file = GgufFile::parse(mapped->bytes());
  if (!file) return Error{file.error().code, path + ": " + file.error().message, path};

  Checkpoint checkpoint;
  checkpoint.path = path;
  Result<json::object> config = gguf_config(*file);
  if (!config) return config.error();
  checkpoint.config = std::move(*config);
  Result<std::optional<GgufVocabulary>> vocabulary = gguf_vocabulary(*file);
  if (!vocabulary) return vocabulary.error();
  checkpoint.vocabulary = std::move(*vocabulary);
  Result<std::optional<std::string>> chat_template = gguf_chat_template(*file);
  if (!chat_template) return chat_template.error();
  checkpoint.chat_template = std::move(*chat_template);
  if (options.with_weights) {
    Result<std::unique_ptr<WeightSource>> weights = gguf_weights(std::move(*mapped), *file);
    if (!weights) return weights.error();
    checkpoint.weights = std::move(*weights);
  }
  return checkpoint;
}

// A JSON file of the directory that must hold an object.
Result<json::object> read_object(const ModelDirectory& directory, std::string_view file_name) {
  const Result<std::string> path = resolve_model_file(directory.path, file_name);
  if (!path) return path.error();
  const Result<std::string> text = read_file(*path, kJsonBytesMax);
  if (!text) return text.error();
  Result<json::value> value = parse_json(*text);
  if (!value) {
    return invalid_argument(
        fmt::format("{}: {}", file_name, value.error().message), std::string(file_name)
    );
  }
  if (!value->is_object()) {
    return invalid_argument(
        fmt::format("{}: expected a JSON object", file_name), std::string(file_name)
    );
  }
  return std::move(value->get_object());
}

// The template that tokenizer_config.json holds: a string, or a list of named ones with a default.
Result<std::optional<std::string>> template_of(const json::object& tokenizer_config) {
  const json::value* value = tokenizer_config.if_contains("chat_template");
  if (value == nullptr || value->is_null()) return std::optional<std::string>();
  if (const json::string* text = value->if_string()) {
    return std::optional(std::string(text->data(), text->size()));
  }
  const Error wrong = invalid_argument(
      "tokenizer_config.json: \"chat_template\" must be a string or a list of named templates",
      "chat_template"
  );
  const json::array* list = value->if_array();
  if (list == nullptr) return wrong;
  for (const json::value& entry : *list) {
    const json::object* named = entry.if_object();
    if (named == nullptr) return wrong;
    const json::value* name = named->if_contains("name");
    const json::value* text = named->if_contains("template");
    if (name == nullptr || text == nullptr || !text->is_string()) return wrong;
    if (*name == "default") return std::optional(std::string(text->get_string()));
  }
  return std::optional<std::string>();
}

// What a GGUF file without tensors says beside the weights: `millrace quantize` keeps the
// vocabulary of a GGUF model in one.
Result<void> read_gguf_vocabulary(const ModelDirectory& directory, Checkpoint& checkpoint) {
  const Result<std::string> path = resolve_model_file(directory.path, kGgufVocabularyFile);
  if (!path) return path.error();
  const Result<MappedFile> mapped = MappedFile::open(*path);
  if (!mapped) return mapped.error();
  const Result<GgufFile> file = GgufFile::parse(mapped->bytes());
  if (!file) return Error{file.error().code, *path + ": " + file.error().message, *path};
  Result<std::optional<GgufVocabulary>> vocabulary = gguf_vocabulary(*file);
  if (!vocabulary) return vocabulary.error();
  checkpoint.vocabulary = std::move(*vocabulary);
  Result<std::optional<std::string>> chat_template = gguf_chat_template(*file);
  if (!chat_template) return chat_template.error();
  checkpoint.chat_template = std::move(*chat_template);
  return {};
}

Result<std::optional<std::string>> read_chat_template(const ModelDirectory& directory) {
  if (directory.has("chat_template.jinja")) {
    const Result<std::string> path = resolve_model_file(directory.path, "chat_template.jinja");
    if (!path) return path.error();
    Result<std::string> text = read_file(*path, kTemplateBytesMax);
    if (!text) return text.error();
    return std::optional(std::move(*text));
  }
  if (!directory.has("tokenizer_config.json")) return std::optional<std::string>();
  const Result<json::object> config = read_object(directory, "tokenizer_config.json");
  if (!config) return config.error();
  return template_of(*config);
}

Result<Checkpoint> open_hugging_face(
    const ModelDirectory& directory, const CheckpointOptions& options
) {
  Checkpoint checkpoint;
  checkpoint.path = directory.path;
  Result<json::object> config = read_object(directory, "config.json");
  if (!config) return config.error();
  checkpoint.config = std::move(*config);
  if (directory.has("generation_config.json")) {
    Result<json::object> generation = read_object(directory, "generation_config.json");
    if (!generation) return generation.error();
    checkpoint.generation_config = std::move(*generation);
  }
  Result<std::optional<std::string>> chat_template = read_chat_template(directory);
  if (!chat_template) return chat_template.error();
  checkpoint.chat_template = std::move(*chat_template);
  if (directory.has(kGgufVocabularyFile)) {
    const Result<void> read = read_gguf_vocabulary(directory, checkpoint);
    if (!read) return read.error();
  }
  const Result<std::optional<QuantizationConfig>> quantization =
      read_quantization_config(checkpoint.config);
  if (!quantization) return quantization.error();
  if (*quantization) {  // what is read is a plain model
    checkpoint.config.erase("quantization_config");
    checkpoint.config.erase("compression_config");
  }
  if (options.with_weights) {
    Result<std::unique_ptr<WeightSource>> weights = open_safetensors_directory(directory.path);
    if (weights && *quantization) weights = plain_weights(std::move(*weights), **quantization);
    if (!weights) return weights.error();
    checkpoint.weights = std::move(*weights);
  }
  return checkpoint;
}

Result<Checkpoint> open_directory(const std::string& path, const CheckpointOptions& options) {
  const Result<ModelDirectory> directory = list_model_directory(path);
  if (!directory) return directory.error();
  if (directory->has("config.json")) return open_hugging_face(*directory, options);
  const std::vector<std::string> gguf_names = directory->names_ending_in(".gguf");
  if (gguf_names.size() != 1) {
    return not_found(
        fmt::format(
            "'{}' is no model: expected config.json with safetensors, or one .gguf file; "
            "found no config.json and {} .gguf files",
            printable(path),
            gguf_names.size()
        ),
        path
    );
  }
  const Result<std::string> file = resolve_model_file(path, gguf_names.front());
  if (!file) return file.error();
  Result<Checkpoint> checkpoint = open_gguf(*file, options);
  if (checkpoint) checkpoint->path = path;
  return checkpoint;
}

}  // namespace

Result<Checkpoint> open_checkpoint(const std::string& path, const CheckpointOptions& options) {
  std::error_code ec;
  const std::filesystem::file_status status = std::filesystem::status(path, ec);
  if (status.type() == std::filesystem::file_type::not_found) {
    return not_found(fmt::format("no model at '{}'", printable(path)), path);
  }
  if (std::filesystem::is_directory(status)) return open_directory(path, options);
  if (path.ends_with(".gguf")) return open_gguf(path, options);
  return invalid_argument(
      fmt::format(
          "'{}' is no model: expected a directory with config.json and safetensors, or a .gguf "
          "file",
          printable(path)
      ),
      path
  );
}

}  // namespace millrace
