// What quantization costs: distributions over the next token beside those of the same model in
// bfloat16, on answers that transformers gave. Prints the table of docs/benchmarks/quantization.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "divergence.h"
#include "loaded_model.h"
#include "model/coded_matrices.h"

namespace millrace {
namespace {

struct Bound {
  Variant variant;
  double mean_kl_max;
};

void expect_quality(
    const std::string& path, const std::vector<Answer>& answers, std::span<const Bound> bounds
) {
  const AnswerLogits base = answer_logits(*load(path, std::nullopt).model, answers);
  const Texts texts = calibration_texts(path);
  for (const Bound& bound : bounds) {
    const std::string name = bound.variant.name();
    const Loaded quantized = load(path, bound.variant, texts);
    const Divergence divergence = compare(base, *quantized.model, answers);
    fmt::print("{}\n", divergence.row(name));
    EXPECT_LE(divergence.mean_kl(), bound.mean_kl_max) << name;
    EXPECT_GT(divergence.mean_kl(), 0.0) << "nothing was rounded";
  }
}

// A little above what was measured: a change that costs quality shows here.
TEST(Quality, SmolLm2StaysWithinItsBounds) {
  const std::optional<std::string> path = smollm2_path();
  if (!path) GTEST_SKIP() << "the default model is missing: ./dev setup fetches it";
  const Bound bounds[] = {
      {{QuantizedFormat::kInt8, Rounding::kAtLoad}, 0.0025},
      {{Quantization::w8a8(), Rounding::kAtLoad}, 0.0035},
      {{QuantizedFormat::kInt4, Rounding::kAtLoad}, 0.38},
      {{QuantizedFormat::kInt8, Rounding::kCalibrated}, 1e-3},
      {{Quantization::w8a8(), Rounding::kCalibrated}, 0.0017},
      {{QuantizedFormat::kInt4, Rounding::kCalibrated}, 0.12},
  };
  expect_quality(*path, golden_answers("smollm2.json"), bounds);
}

// Weights that arrived in 4 bits: beside float32 of the same values, what multiplying their codes
// costs, or rounding them again.
TEST(Quality, SmolLm2InFourBitsStaysWhatItIs) {
  const std::optional<std::string> path = smollm2_path();
  if (!path) GTEST_SKIP() << "the default model is missing: ./dev setup fetches it";
  struct Kept {
    std::optional<Quantization> quantization;
    DType dtype;
    double mean_kl_max;
  };
  const Kept kinds[] = {
      {Quantization::stored(), DType::kBFloat16, 5e-4},
      {std::nullopt, DType::kBFloat16, 5e-4},
      {QuantizedFormat::kInt8, DType::kBFloat16, 0.004},
      {QuantizedFormat::kInt4, DType::kBFloat16, 0.5},
  };
  constexpr CodeForm kForm = {.bits = 4, .num_inputs = 64};
  const std::vector<Answer> answers = golden_answers("smollm2.json");
  const AnswerLogits base =
      answer_logits(*load_coded(*path, kForm, std::nullopt, DType::kFloat32).model, answers);
  for (const auto& [quantization, dtype, mean_kl_max] : kinds) {
    const Loaded kept = load_coded(*path, kForm, quantization, dtype);
    const Divergence divergence = compare(base, *kept.model, answers);
    const std::string_view name = quantization ? name_of(*quantization) : name_of(dtype);
    fmt::print("{}\n", divergence.row(std::string(name) + " of 4 bits"));
    EXPECT_LE(divergence.mean_kl(), mean_kl_max) << name;
    EXPECT_GT(divergence.mean_kl(), 0.0) << name;
  }
}

// The same of other codes that are kept.
TEST(Quality, SmolLm2InFiveToEightBitsStaysWhatItIs) {
  const std::optional<std::string> path = smollm2_path();
  if (!path) GTEST_SKIP() << "the default model is missing: ./dev setup fetches it";
  constexpr CodeForm kForms[] = {
      {.bits = 5, .num_inputs = 32},
      {.bits = 6, .num_inputs = 16, .is_symmetric = true},
      {.bits = 8, .num_inputs = 32, .is_symmetric = true},
      {.bits = 8, .num_inputs = 32, .is_symmetric = true, .is_iq4 = true}};
  const std::vector<Answer> answers = golden_answers("smollm2.json");
  for (const CodeForm& form : kForms) {
    const AnswerLogits base =
        answer_logits(*load_coded(*path, form, std::nullopt, DType::kFloat32).model, answers);
    const Loaded kept = load_coded(*path, form, Quantization::stored(), DType::kBFloat16);
    const Divergence divergence = compare(base, *kept.model, answers);
    const std::string name(name_of(*format_of_codes(form)));
    fmt::print("{}\n", divergence.row(name));
    EXPECT_LE(divergence.mean_kl(), 5e-4) << name;
    EXPECT_GT(divergence.mean_kl(), 0.0) << name;
  }
}

// What `--quantization auto` makes of the default model's own file, whose head is in 8 bits: beside
// float32 of the same values.
TEST(Quality, SmolLm2AsItsFileHasItStaysWhatItIs) {
  const std::optional<std::string> path = smollm2_path();
  if (!path) GTEST_SKIP() << "the default model is missing: ./dev setup fetches it";
  const std::vector<Answer> answers = golden_answers("smollm2.json");
  const AnswerLogits base =
      answer_logits(*load(*path, std::nullopt, DType::kFloat32).model, answers);
  const Loaded kept = load(*path, Quantization::stored(), DType::kFloat16);
  const Divergence divergence = compare(base, *kept.model, answers);
  fmt::print("{}\n", divergence.row("stored, its own file"));
  EXPECT_LE(divergence.mean_kl(), 1e-4);
  EXPECT_GT(divergence.mean_kl(), 0.0);
}

TEST(Quality, Stories260kStaysWithinItsBounds) {
  const std::string path = MILLRACE_SOURCE_DIR "/../shared/data/models/stories260k";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "../shared/data/models/stories260k is missing";
  }
  const Bound bounds[] = {
      {{QuantizedFormat::kInt8, Rounding::kAtLoad}, 8e-4},
      {{Quantization::w8a8(), Rounding::kAtLoad}, 1e-3},
      {{QuantizedFormat::kInt4, Rounding::kAtLoad}, 0.08},
      {{QuantizedFormat::kInt8, Rounding::kCalibrated}, 5e-4},
      {{QuantizedFormat::kInt4, Rounding::kCalibrated}, 0.08},
  };
  expect_quality(path, golden_answers("stories260k.json"), bounds);
}

}  // namespace
}  // namespace millrace
