// `millrace quantize`: rounds a model to 8 or 4 bits once, with calibration, into a directory that
// every other command takes as MODEL.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "calibration_texts.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/safetensors_writer.h"
#include "command_line.h"
#include "commands.h"
#include "failure.h"
#include "model/stored_weights.h"
#include "model_flags.h"
#include "progress_bar.h"
#include "quantization/quantize_model.h"
#include "terminal.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kCalibrationLen = 512;  // tokens of a question and its answer

// With fewer, rounding errors are fed back to inputs that nothing is known of: worse than nearest.
constexpr size_t kCalibrationTokensMin = 256;

struct QuantizeFlags {
  ModelFlags model;
  std::string format = "int8";
  std::string output;
  std::string calibration;
  std::optional<int64_t> num_answer_tokens;  // none: kCalibrationAnswerTokens
  bool no_calibration = false;
};

// Copied as they are where the model has them; a model's code is not.
constexpr std::array kFilesKept = {
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "generation_config.json",
};

Error write_error(const std::string& path, const std::error_code& reason) {
  return Error{
      ErrorCode::kInternal, fmt::format("cannot write '{}': {}", path, reason.message()), path};
}

Result<void> write_text(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (file) return {};
  return write_error(path, std::error_code(errno, std::generic_category()));
}

// A new or empty directory: nothing of another model must be left beside what is written. What a
// run that failed wrote goes with this, and so does a new directory, so that the same can be tried
// again.
class OutputDirectory {
 public:
  static Result<OutputDirectory> make(const std::string& path) {
    if (path.empty()) return invalid_argument("give the directory to write: -o DIR", "--output");
    std::error_code failed;
    const bool is_new = fs::create_directories(path, failed);
    if (failed) return write_error(path, failed);
    const bool is_empty = fs::is_empty(path, failed);
    if (failed) return write_error(path, failed);
    if (!is_empty) return invalid_argument(fmt::format("'{}' is not empty", path), "--output");
    return OutputDirectory(path, is_new);
  }
  ~OutputDirectory() {
    std::error_code ignored;
    for (const std::string& path : written_) fs::remove(path, ignored);
    if (is_new_) fs::remove(path_, ignored);  // if it is empty
  }
  OutputDirectory(OutputDirectory&& other) noexcept
      : path_(std::move(other.path_)),
        is_new_(std::exchange(other.is_new_, false)),
        written_(std::exchange(other.written_, {})) {}
  OutputDirectory& operator=(OutputDirectory&&) = delete;

  // Where a file is to be written.
  std::string file(const std::string& name) {
    written_.push_back(path_ + "/" + name);
    return written_.back();
  }

  // All is written.
  void keep() {
    written_.clear();
    is_new_ = false;
  }

 private:
  OutputDirectory(std::string path, bool is_new) : path_(std::move(path)), is_new_(is_new) {}

  std::string path_;
  bool is_new_;  // else it was there before
  std::vector<std::string> written_;
};

// The file that a model's GGUF metadata is in; empty where it is no GGUF model.
Result<std::string> gguf_path(const std::string& model) {
  if (!fs::is_directory(model)) return model;
  const Result<ModelDirectory> directory = list_model_directory(model);
  if (!directory) return directory.error();
  if (directory->has("config.json")) return std::string();
  return resolve_model_file(model, directory->names_ending_in(".gguf").front());
}

Result<void> copy_text_files(const std::string& model, OutputDirectory& output) {
  const Result<std::string> gguf = gguf_path(model);
  if (!gguf) return gguf.error();
  if (!gguf->empty()) {
    const Result<MappedFile> mapped = MappedFile::open(*gguf);
    if (!mapped) return mapped.error();
    const Result<GgufFile> file = GgufFile::parse(mapped->bytes());
    if (!file) return file.error();
    return write_text(output.file(kGgufVocabularyFile), file->without_tensors());
  }
  const Result<ModelDirectory> directory = list_model_directory(model);
  if (!directory) return directory.error();
  for (const char* const name : kFilesKept) {
    if (!directory->has(name)) continue;
    const Result<std::string> path = resolve_model_file(model, name);
    if (!path) return path.error();
    // Not by the library's copy, which calls a full disk an input/output error.
    const Result<std::string> text = read_file(*path);
    if (!text) return text.error();
    if (Result<void> done = write_text(output.file(name), *text); !done) return done;
  }
  return {};
}

// Loads the model to speak with it, and gives it up again.
Result<std::vector<std::vector<TokenId>>> read_calibration(
    const QuantizeFlags& flags, const ModelConfig& config, LocalModelOptions options
) {
  options.engine.max_model_len =
      static_cast<int32_t>(std::min<int64_t>(kCalibrationLen, config.max_position_embeddings));
  options.keeps_codes = false;
  const std::string path = options.text.model;
  Result<LocalModel> model = load_with_progress(std::move(options));
  if (!model && model.error().code == ErrorCode::kResourceExhausted) {
    return Error{
        ErrorCode::kResourceExhausted,
        "calibration holds the model unrounded, and memory has no room for that: round its weights "
        "to nearest, with --no-calibration",
        path};
  }
  if (!model) return model.error();
  if (!flags.calibration.empty()) return paragraphs_of(*model, flags.calibration);
  ProgressBar bar("calibration: the model's own answers");
  bar.show(0.0);
  const auto num_answer_tokens =
      static_cast<int32_t>(flags.num_answer_tokens.value_or(kCalibrationAnswerTokens));
  return own_answers(*model, num_answer_tokens, [&bar](double fraction) { bar.show(fraction); });
}

Result<void> write_model(
    const Checkpoint& checkpoint,
    const ModelConfig& config,
    const QuantizedModel& model,
    const QuantizeOptions& options,
    OutputDirectory& output
) {
  Result<void> done = copy_text_files(checkpoint.path, output);
  if (!done) return done;
  json::object stated = checkpoint.config;
  stated.erase("dtype");  // newer configurations' word for the next, which goes before it
  stated["torch_dtype"] = name_of(options.dtype);
  stated["quantization_config"] = {
      {"quant_method", "millrace"},
      {"format", name_of(options.format)},
      {"version", stored_weights_version(options.format)}};
  done = write_text(output.file("config.json"), json::serialize(stated) + "\n");
  if (!done) return done;
  const std::vector<TensorToWrite> tensors =
      stored_tensors(config, model.weights, *checkpoint.weights, options.dtype);
  ProgressBar bar("writing");
  const auto on_tensor = [&bar](size_t num_written, size_t num_tensors) {
    bar.show(static_cast<double>(num_written) / static_cast<double>(num_tensors));
  };
  done = write_safetensors(output.file("model.safetensors"), tensors, on_tensor);
  if (done) output.keep();
  return done;
}

Result<void> check_flags(const QuantizeFlags& flags) {
  const bool has_own_text = !flags.calibration.empty();
  if (flags.no_calibration && (has_own_text || flags.num_answer_tokens)) {
    const char* const other = has_own_text ? "--calibration" : "--calibration-tokens";
    return invalid_argument(
        fmt::format("--no-calibration leaves out what {} is for", other), "--no-calibration"
    );
  }
  if (has_own_text && flags.num_answer_tokens) {
    return invalid_argument(
        "--calibration-tokens is of the model's own answers, which --calibration replaces",
        "--calibration-tokens"
    );
  }
  const int64_t count = flags.num_answer_tokens.value_or(kCalibrationAnswerTokens);
  if (count >= 1 && count <= kCalibrationLen / 2) return {};
  return invalid_argument(
      fmt::format("--calibration-tokens: expected 1 to {}, got {}", kCalibrationLen / 2, count),
      "--calibration-tokens"
  );
}

Result<void> check_model(
    const QuantizeFlags& flags, const Checkpoint& checkpoint, const ModelConfig& config
) {
  if (config.stored_quantization) {
    return invalid_argument(
        fmt::format("'{}' is quantized already: take the original", checkpoint.path), "MODEL"
    );
  }
  if (flags.no_calibration) return {};
  Result<void> done = check_calibratable(config);
  if (done) return done;
  return Error{
      done.error().code,
      done.error().message + ": round its weights to nearest, with --no-calibration",
      done.error().where};
}

size_t num_tokens_of(const std::vector<std::vector<TokenId>>& texts) {
  size_t count = 0;
  for (const std::vector<TokenId>& text : texts) count += text.size();
  return count;
}

Result<std::vector<std::vector<TokenId>>> calibration_texts(
    const QuantizeFlags& flags, const ModelConfig& config, LocalModelOptions options
) {
  if (flags.no_calibration) return std::vector<std::vector<TokenId>>();
  Result<std::vector<std::vector<TokenId>>> texts =
      read_calibration(flags, config, std::move(options));
  if (!texts || num_tokens_of(*texts) >= kCalibrationTokensMin) return texts;
  return invalid_argument(
      fmt::format(
          "calibration takes {} tokens at least, and '{}' has {}",
          kCalibrationTokensMin,
          flags.calibration,
          num_tokens_of(*texts)
      ),
      "--calibration"
  );
}

Result<void> quantize(const QuantizeFlags& flags) {
  const std::optional<QuantizedFormat> format = quantized_format_from_name(flags.format);
  if (!format) {
    return invalid_argument(
        fmt::format("--to: expected int8 or int4, got '{}'", flags.format), "--to"
    );
  }
  if (Result<void> done = check_flags(flags); !done) return done;
  Result<LocalModelOptions> model_options = model_options_of(flags.model);
  if (!model_options) return model_options.error();
  const Result<Checkpoint> checkpoint = open_checkpoint(model_options->text.model);
  if (!checkpoint) return checkpoint.error();
  const Result<ModelConfig> config = parse_model_config(checkpoint->config);
  if (!config) return config.error();
  if (Result<void> done = check_model(flags, *checkpoint, *config); !done) return done;
  Result<OutputDirectory> output = OutputDirectory::make(flags.output);
  if (!output) return output.error();

  QuantizeOptions options{.format = *format};
  options.dtype = model_options->dtype.value_or(automatic_dtype(*config, *checkpoint));
  const size_t num_threads = model_options->num_threads;
  const Result<std::vector<std::vector<TokenId>>> texts =
      calibration_texts(flags, *config, *std::move(model_options));
  if (!texts) return texts.error();
  options.texts = *texts;
  Result<QuantizedModel> model = [&] {
    ProgressBar bar(fmt::format("quantizing to {}", flags.format));
    options.on_progress = [&bar](std::string_view phase, double fraction) {
      bar.show(fraction, std::string(phase));
    };
    ThreadPool threads(num_threads);
    return quantize_model(*config, *checkpoint->weights, options, threads);
  }();
  if (!model) return model.error();
  if (Result<void> done = write_model(*checkpoint, *config, *model, options, *output); !done) {
    return done;
  }
  const size_t num_bytes = model->weights.num_step_bytes() + model->weights.num_expert_bytes();
  fmt::print(
      "{}: {} ({:.1f} MB of quantized weights, {} tokens of calibration)\n",
      flags.output,
      flags.format,
      static_cast<double>(num_bytes) / 1e6,
      num_tokens_of(*texts)
  );
  return {};
}

}  // namespace

int run_quantize(std::vector<std::string> arguments) {
  QuantizeFlags flags;
  CommandLine line(
      "quantize", "Rounds a model to 8 or 4 bits, calibrated, into a directory to be served."
  );
  line.add_positional(
      "MODEL", flags.model.model, "a Hugging Face directory, a .gguf file, or smollm2 (the default)"
  );
  line.add("--to", flags.format, "int8 or int4");
  line.add("--output,-o", flags.output, "the directory to write, new or empty");
  line.add("--dtype", flags.model.dtype, "of the embedding and of what is rounded: auto, ...");
  line.add(
      "--calibration",
      flags.calibration,
      "a text file, its paragraphs parted by empty lines (the model's own answers)"
  );
  line.add_size(
      "--calibration-tokens",
      flags.num_answer_tokens,
      fmt::format("tokens of each of its own answers ({})", kCalibrationAnswerTokens)
  );
  line.add_flag(
      "--no-calibration", flags.no_calibration, "round weights to nearest: quick, and loses more"
  );
  line.add("--threads", flags.model.num_threads, "compute threads; 0: one per CPU");
  line.set_footer(
      "The model answers forty questions, and from what passes through its matrices it is learned\n"
      "which of their inputs matter. What rounding one weight loses is made good by the others.\n"
      "\n"
      "Examples:\n"
      "  millrace quantize --to int8 -o smollm2-int8 && millrace chat smollm2-int8\n"
      "  millrace quantize ~/models/Qwen2-7B-Instruct --to int4 -o ~/models/Qwen2-7B-int4\n"
      "  millrace quantize Qwen3-30B-A3B-Q8_0.gguf --to int4 --no-calibration -o Qwen3-30B-A3B-int4"
  );
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  return report("quantize", quantize(flags));
}

}  // namespace millrace
