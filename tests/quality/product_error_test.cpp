// The relative error of each layer's matrix products, of every format and way of rounding. Prints
// each kind's lowest, median and highest layer, and writes all of them beside this program.
#include "product_error.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/check.h"
#include "checkpoint/checkpoint.h"
#include "loaded_model.h"

namespace millrace {
namespace {

constexpr std::array kKinds = {
    MatrixKind::kQkv,
    MatrixKind::kAttentionOut,
    MatrixKind::kGateUp,
    MatrixKind::kDown,
    MatrixKind::kHead,
};

struct Spread {
  double lowest = 0.0;
  double median = 0.0;
  double highest = 0.0;
};

Spread spread_of(const ProductErrors& errors, size_t variant, MatrixKind kind) {
  std::vector<double> layers;
  for (size_t layer = 0; layer < errors.num_layers(kind); ++layer) {
    layers.push_back(errors.error(variant, {kind, layer}));
  }
  std::ranges::sort(layers);
  return {layers.front(), layers[layers.size() / 2], layers.back()};
}

void print(const ProductErrors& errors) {
  for (size_t variant = 0; variant < errors.num_variants(); ++variant) {
    std::string row = fmt::format("| {} |", errors.name(variant));
    for (const MatrixKind kind : kKinds) {
      const Spread spread = spread_of(errors, variant, kind);
      row += errors.num_layers(kind) == 1 ? fmt::format(" {:.2f} |", 100.0 * spread.median)
                                          : fmt::format(
                                                " {:.2f} / {:.2f} / {:.2f} |",
                                                100.0 * spread.lowest,
                                                100.0 * spread.median,
                                                100.0 * spread.highest
                                            );
    }
    fmt::print("{}\n", row);
  }
}

// A line for each layer: every variant's errors, in percent.
void write_layers(const ProductErrors& errors, const std::string& name) {
  const std::filesystem::path folder = std::filesystem::canonical("/proc/self/exe").parent_path();
  std::ofstream file(folder / name);
  for (const MatrixKind kind : kKinds) {
    file << "| " << name_of(kind) << " |";
    for (size_t variant = 0; variant < errors.num_variants(); ++variant) {
      file << " " << errors.name(variant) << " |";
    }
    file << "\n";
    for (size_t layer = 0; layer < errors.num_layers(kind); ++layer) {
      file << "| " << layer << " |";
      for (size_t variant = 0; variant < errors.num_variants(); ++variant) {
        file << fmt::format(" {:.3f} |", 100.0 * errors.error(variant, {kind, layer}));
      }
      file << "\n";
    }
  }
  fmt::print("every layer: {}\n", (folder / name).string());
}

// Percent, of the worst layer, in the order of kKinds.
struct ErrorBound {
  Variant variant;
  std::array<double, kKinds.size()> highest;
};

ModelWeights weights_of(
    const Checkpoint& checkpoint,
    const ModelConfig& config,
    const WeightFormat& format,
    ThreadPool& pool
) {
  Result<ModelWeights> weights = load_weights(config, *checkpoint.weights, format, pool);
  CHECK(weights.ok(), weights.error().message);
  return *std::move(weights);
}

void expect_errors(
    const std::string& path,
    const std::vector<Answer>& answers,
    std::span<const ErrorBound> bounds,
    const std::string& file
) {
  ThreadPool pool(2);
  const Result<Checkpoint> checkpoint = open_checkpoint(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const ModelConfig config = *parse_model_config(checkpoint->config);
  const ModelWeights base = weights_of(*checkpoint, config, {DType::kBFloat16}, pool);
  const ModelWeights exact = in_float32(base);
  ProductErrors errors(config, exact, pool);
  errors.add("bfloat16", base);

  const Texts texts = calibration_texts(path);
  std::vector<std::unique_ptr<ModelWeights>> rounded;
  for (const ErrorBound& bound : bounds) {
    const Quantization& quantization = bound.variant.quantization;
    rounded.push_back(std::make_unique<ModelWeights>(
        bound.variant.rounding == Rounding::kCalibrated
            ? calibrate(path, quantization.format, texts, pool).weights
            : weights_of(*checkpoint, config, {DType::kBFloat16, quantization}, pool)
    ));
    errors.add(bound.variant.name(), *rounded.back(), quantization);
  }

  const Loaded reader = load(path, std::nullopt);
  reader.model->set_observer(&errors);
  for (const Answer& answer : answers) {
    forward(*reader.model, answer.tokens, answer.num_answer_tokens);
  }
  print(errors);
  write_layers(errors, file);

  for (size_t i = 0; i < kKinds.size(); ++i) {
    EXPECT_LE(spread_of(errors, 0, kKinds[i]).highest, 0.004) << "bfloat16, " << name_of(kKinds[i]);
  }
  for (size_t variant = 1; variant < errors.num_variants(); ++variant) {
    for (size_t i = 0; i < kKinds.size(); ++i) {
      const Spread spread = spread_of(errors, variant, kKinds[i]);
      EXPECT_LE(100.0 * spread.highest, bounds[variant - 1].highest[i])
          << errors.name(variant) << ", " << name_of(kKinds[i]);
      EXPECT_GT(spread.lowest, 0.0) << "nothing was rounded";
    }
  }
}

// A little above what was measured.
TEST(ProductErrors, OfSmolLm2StayWithinTheirBounds) {
  const std::optional<std::string> path = smollm2_path();
  if (!path) GTEST_SKIP() << "the default model is missing: ./dev setup fetches it";
  const ErrorBound bounds[] = {
      {{QuantizedFormat::kInt8, Rounding::kAtLoad}, {0.72, 0.95, 0.95, 1.1, 0.85}},
      {{QuantizedFormat::kInt8, Rounding::kCalibrated}, {0.35, 0.55, 0.5, 1.35, 0.55}},
      {{QuantizedFormat::kInt4, Rounding::kAtLoad}, {10.5, 13, 12.5, 12, 3.4}},
      {{QuantizedFormat::kInt4, Rounding::kCalibrated}, {4.6, 7.4, 6.4, 10.3, 2.3}},
  };
  std::vector<Answer> answers = golden_answers("smollm2.json");
  answers.resize(6);
  expect_errors(*path, answers, bounds, "product_errors_smollm2.md");
}

TEST(ProductErrors, OfStories260kStayWithinTheirBounds) {
  const std::string path = MILLRACE_SOURCE_DIR "/../shared/data/models/stories260k";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "../shared/data/models/stories260k is missing";
  }
  const ErrorBound bounds[] = {
      {{QuantizedFormat::kInt8, Rounding::kAtLoad}, {0.4, 0.75, 0.8, 1.4, 0.45}},
      {{QuantizedFormat::kInt8, Rounding::kCalibrated}, {0.35, 0.8, 0.65, 1.2, 0.35}},
      {{QuantizedFormat::kInt4, Rounding::kAtLoad}, {5.4, 10.3, 9.9, 14.5, 1.8}},
      {{QuantizedFormat::kInt4, Rounding::kCalibrated}, {4.6, 10.8, 9, 11.4, 1.4}},
  };
  expect_errors(path, golden_answers("stories260k.json"), bounds, "product_errors_stories260k.md");
}

}  // namespace
}  // namespace millrace
