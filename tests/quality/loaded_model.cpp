#include "loaded_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/json.h"
#include "base/math.h"
#include "calibration_texts.h"
#include "checkpoint/checkpoint.h"
#include "kernels/quantized/quantized_test_data.h"
#include "model_location.h"

namespace millrace {
namespace {

CpuModelOptions model_options(std::optional<Quantization> quantization, DType dtype) {
  return {
      .dtype = dtype,
      .quantization = quantization,
      .num_blocks = kModelLenMax / 16,
      .max_model_len = kModelLenMax,
      .max_num_batched_tokens = kModelLenMax,
      .max_num_logits = kModelLenMax,
  };
}

template <class T>
T checked(Result<T> result) {
  CHECK(result.ok(), result.error().message);
  return *std::move(result);
}

// A source whose matrices of layers are codes of that form.
class RoundedToCodes : public WeightSource {
 public:
  RoundedToCodes(const WeightSource& plain, const CodeForm& form) : plain_(plain), form_(form) {}

  std::span<const TensorInfo> tensors() const override { return plain_.tensors(); }
  const TensorInfo* find(std::string_view name) const override { return plain_.find(name); }
  CodeForm code_form(const TensorInfo& tensor) const override {
    const bool is_of_layers = tensor.name.find(".layers.") != std::string::npos;
    return tensor.shape.size() == 2 && is_of_layers ? form_ : CodeForm{};
  }

  void read_codes(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, const StoredCodes& out
  ) const override {
    const CodedRowsData rows = coded_rows(tensor, row_begin, num_rows);
    std::ranges::copy(rows.codes, out.codes.begin());
    std::ranges::copy(rows.scales, out.scales.begin());
    std::ranges::copy(rows.bases, out.bases.begin());
  }

  void read_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
  ) const override {
    if (!code_form(tensor)) return plain_.read_rows(tensor, row_begin, num_rows, out);
    const CodedRowsData rows = coded_rows(tensor, row_begin, num_rows);
    const auto width = static_cast<size_t>(tensor.row_length());
    std::ranges::copy(rows.values(width, form_.num_inputs), out.begin());
  }

 private:
  CodedRowsData coded_rows(const TensorInfo& tensor, int64_t row_begin, int64_t num_rows) const {
    std::vector<float> values(static_cast<size_t>(num_rows * tensor.row_length()));
    plain_.read_rows(tensor, row_begin, num_rows, values);
    const CodeFormat format = {form_.bits, form_.num_inputs, !form_.is_symmetric, form_.is_iq4};
    return coded(values, static_cast<size_t>(tensor.row_length()), format);
  }

  const WeightSource& plain_;
  CodeForm form_;
};

Loaded load(
    const ModelConfig& config,
    const WeightSource& weights,
    std::optional<Quantization> quantization,
    DType dtype
) {
  const CpuModelOptions options =
      model_options(checked(quantization_of(config, quantization)), dtype);
  Loaded loaded{.threads = std::make_unique<ThreadPool>(2)};
  loaded.model = checked(CpuModel::load(config, weights, options, *loaded.threads));
  return loaded;
}

}  // namespace

Loaded load(const std::string& path, std::optional<Quantization> quantization, DType dtype) {
  const Checkpoint checkpoint = checked(open_checkpoint(path));
  const ModelConfig config = checked(parse_model_config(checkpoint.config));
  return load(config, *checkpoint.weights, quantization, dtype);
}

Loaded load_coded(
    const std::string& path,
    const CodeForm& form,
    std::optional<Quantization> quantization,
    DType dtype
) {
  const Checkpoint checkpoint = checked(open_checkpoint(path));
  const ModelConfig config = checked(parse_model_config(checkpoint.config));
  return load(config, RoundedToCodes(*checkpoint.weights, form), quantization, dtype);
}

LocalModel load_speaking(const std::string& path) {
  LocalModelOptions options;
  options.text.model = path;
  options.dtype = DType::kBFloat16;
  options.kv_cache_bytes = int64_t{256} << 20;
  options.available_bytes = int64_t{8} << 30;
  options.num_threads = 2;
  options.engine.max_model_len = kModelLenMax;
  return checked(load_local_model(std::move(options)));
}

Texts calibration_texts(const std::string& path, int32_t num_answer_tokens) {
  LocalModel model = load_speaking(path);
  return checked(own_answers(model, num_answer_tokens));
}

QuantizedModel calibrate(
    const std::string& path, QuantizedFormat format, const Texts& texts, ThreadPool& pool
) {
  const Checkpoint checkpoint = checked(open_checkpoint(path));
  const ModelConfig config = checked(parse_model_config(checkpoint.config));
  return checked(
      quantize_model(config, *checkpoint.weights, {.format = format, .texts = texts}, pool)
  );
}

Loaded load_calibrated(
    const std::string& path, const Quantization& quantization, const Texts& texts
) {
  Loaded loaded{.threads = std::make_unique<ThreadPool>(2)};
  QuantizedModel quantized = calibrate(path, quantization.format, texts, *loaded.threads);
  loaded.model = checked(CpuModel::from_weights(
      quantized.config,
      std::move(quantized.weights),
      model_options(quantization, DType::kBFloat16),
      *loaded.threads
  ));
  return loaded;
}

std::string Variant::name() const {
  return fmt::format(
      "{}{}", name_of(quantization), rounding == Rounding::kCalibrated ? ", calibrated" : ""
  );
}

Loaded load(const std::string& path, const Variant& variant, const Texts& texts) {
  return variant.rounding == Rounding::kCalibrated
             ? load_calibrated(path, variant.quantization, texts)
             : load(path, variant.quantization);
}

std::span<const float> forward(CpuModel& model, std::span<const TokenId> tokens, size_t num_rows) {
  ForwardBatch batch;
  const auto num_tokens = static_cast<int32_t>(tokens.size());
  for (int32_t i = 0; i < num_tokens; ++i) {
    batch.token_ids.push_back(tokens[static_cast<size_t>(i)]);
    batch.positions.push_back(i);
    batch.slot_mapping.push_back(i);
    if (i >= num_tokens - static_cast<int32_t>(num_rows)) {
      batch.logit_rows.push_back(LogitRow::of_token(i));
    }
  }
  batch.cu_seqlens = {0, num_tokens};
  batch.context_lens = {num_tokens};
  batch.max_blocks_per_sequence = div_ceil(num_tokens, model.block_size());
  for (int32_t i = 0; i < batch.max_blocks_per_sequence; ++i) batch.block_tables.push_back(i);
  return model.forward(batch);
}

std::span<const float> forward(CpuModel& model, const Answer& answer) {
  const std::span<const TokenId> inputs(answer.tokens.data(), answer.tokens.size() - 1);
  return forward(model, inputs, answer.num_answer_tokens);
}

std::optional<std::string> smollm2_path() {
  Result<std::string> path = locate_model(kDefaultModel);
  if (!path) return std::nullopt;
  return *std::move(path);
}

std::vector<Answer> golden_answers(const std::string& name) {
  const json::value file =
      checked(read_json_file(MILLRACE_SOURCE_DIR "/tests/golden/greedy/" + name));
  std::vector<Answer> answers;
  for (const json::value& entry : file.as_array()) {
    auto tokens = json::value_to<std::vector<TokenId>>(entry.at("prompt_token_ids"));
    const auto ids = json::value_to<std::vector<TokenId>>(entry.at("token_ids"));
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    answers.push_back({.tokens = std::move(tokens), .num_answer_tokens = ids.size()});
  }
  return answers;
}

}  // namespace millrace
