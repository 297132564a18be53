// What quantization costs: distributions over the next token beside those of the same model in
// bfloat16, on answers that transformers gave. Prints the table of docs/benchmarks/quantization.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/json.h"
#include "base/math.h"
#include "calibration_texts.h"
#include "checkpoint/checkpoint.h"
#include "model/cpu_model.h"
#include "model_location.h"
#include "quantization/quantize_model.h"

namespace millrace {
namespace {

constexpr int32_t kModelLenMax = 512;

struct Answer {
  std::vector<TokenId> tokens;  // prompt and answer
  size_t num_answer_tokens;
};

std::vector<Answer> read_answers(const std::string& name) {
  const Result<json::value> file =
      read_json_file(MILLRACE_SOURCE_DIR "/tests/golden/greedy/" + name);
  CHECK(file.ok(), file.error().message);
  std::vector<Answer> answers;
  for (const json::value& entry : file->as_array()) {
    auto tokens = json::value_to<std::vector<TokenId>>(entry.at("prompt_token_ids"));
    const auto ids = json::value_to<std::vector<TokenId>>(entry.at("token_ids"));
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    answers.push_back({.tokens = std::move(tokens), .num_answer_tokens = ids.size()});
  }
  return answers;
}

// A model and the threads it borrows.
struct Loaded {
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<CpuModel> model;
};

CpuModelOptions model_options(std::optional<QuantizedFormat> quantization) {
  return {
      .dtype = DType::kBFloat16,
      .quantization = quantization,
      .num_blocks = kModelLenMax / 16,
      .max_model_len = kModelLenMax,
      .max_num_batched_tokens = kModelLenMax,
      .max_num_logits = kModelLenMax,
  };
}

Loaded load(const std::string& path, std::optional<QuantizedFormat> quantization) {
  Result<Checkpoint> checkpoint = open_checkpoint(path);
  CHECK(checkpoint.ok(), checkpoint.error().message);
  const ModelConfig config = *parse_model_config(checkpoint->config);
  Loaded loaded{.threads = std::make_unique<ThreadPool>(2)};
  auto model =
      CpuModel::load(config, *checkpoint->weights, model_options(quantization), *loaded.threads);
  CHECK(model.ok(), model.error().message);
  loaded.model = *std::move(model);
  return loaded;
}

// The logits after each of the last `num_rows` tokens: [num_rows, vocab_size].
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

std::vector<double> log_softmax(std::span<const float> logits) {
  const auto peak = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - peak);
  std::vector<double> result(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    result[i] = static_cast<double>(logits[i]) - peak - std::log(sum);
  }
  return result;
}

double divergence(std::span<const double> p, std::span<const double> q) {
  double sum = 0.0;
  for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i]) * (p[i] - q[i]);
  return sum;
}

TokenId largest(std::span<const float> logits) {
  return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
}

struct Quality {
  std::vector<double> kl;  // of each token, ascending
  int32_t num_changed = 0;
  double base_loss = 0.0;
  double loss = 0.0;

  double mean_kl() const {
    return std::accumulate(kl.begin(), kl.end(), 0.0) / static_cast<double>(kl.size());
  }
  std::string row(std::string_view name) const {
    const auto count = static_cast<double>(kl.size());
    return fmt::format(
        "| {} | {} | {:.6f} | {:.5f} | {:.4f} | {} | {:.4f} | {:.4f} |",
        name,
        kl.size(),
        mean_kl(),
        kl[kl.size() * 99 / 100],
        kl.back(),
        num_changed,
        std::exp(base_loss / count),
        std::exp(loss / count)
    );
  }
};

Quality compare(CpuModel& base, CpuModel& model, const std::vector<Answer>& answers) {
  Quality quality;
  const auto vocab_size = static_cast<size_t>(base.vocab_size());
  for (const Answer& answer : answers) {
    // The last token has no successor whose probability it could say.
    const std::span<const TokenId> inputs(answer.tokens.data(), answer.tokens.size() - 1);
    const std::span<const float> expected = forward(base, inputs, answer.num_answer_tokens);
    const std::span<const float> found = forward(model, inputs, answer.num_answer_tokens);
    for (size_t row = 0; row < answer.num_answer_tokens; ++row) {
      const auto base_logits = expected.subspan(row * vocab_size, vocab_size);
      const auto logits = found.subspan(row * vocab_size, vocab_size);
      const std::vector<double> p = log_softmax(base_logits);
      const std::vector<double> q = log_softmax(logits);
      const TokenId next = answer.tokens[answer.tokens.size() - answer.num_answer_tokens + row];
      quality.kl.push_back(divergence(p, q));
      quality.num_changed += largest(base_logits) != largest(logits) ? 1 : 0;
      quality.base_loss -= p[static_cast<size_t>(next)];
      quality.loss -= q[static_cast<size_t>(next)];
    }
  }
  std::ranges::sort(quality.kl);
  return quality;
}

// What `millrace quantize` makes of the model, without the way through a file.
Loaded load_calibrated(const std::string& path, QuantizedFormat format) {
  LocalModelOptions options;
  options.text.model = path;
  options.dtype = DType::kBFloat16;
  options.kv_cache_bytes = int64_t{256} << 20;
  options.available_bytes = int64_t{8} << 30;
  options.num_threads = 2;
  options.engine.max_model_len = kModelLenMax;
  const auto texts = [&] {
    Result<LocalModel> model = load_local_model(std::move(options));
    CHECK(model.ok(), model.error().message);
    return own_answers(*model, 32);
  }();
  CHECK(texts.ok(), texts.error().message);

  const Result<Checkpoint> checkpoint = open_checkpoint(path);
  CHECK(checkpoint.ok(), checkpoint.error().message);
  const ModelConfig config = *parse_model_config(checkpoint->config);
  Loaded loaded{.threads = std::make_unique<ThreadPool>(2)};
  Result<QuantizedModel> quantized = quantize_model(
      config, *checkpoint->weights, {.format = format, .texts = *texts}, *loaded.threads
  );
  CHECK(quantized.ok(), quantized.error().message);
  auto model = CpuModel::from_weights(
      quantized->config, std::move(quantized->weights), model_options(format), *loaded.threads
  );
  CHECK(model.ok(), model.error().message);
  loaded.model = *std::move(model);
  return loaded;
}

enum class Rounding { kAtLoad, kCalibrated };

struct Bound {
  QuantizedFormat format;
  Rounding rounding;
  double mean_kl_max;
};

void expect_quality(
    const std::string& path, const std::vector<Answer>& answers, std::span<const Bound> bounds
) {
  const Loaded base = load(path, std::nullopt);
  for (const Bound& bound : bounds) {
    const bool is_calibrated = bound.rounding == Rounding::kCalibrated;
    const std::string name =
        fmt::format("{}{}", name_of(bound.format), is_calibrated ? ", calibrated" : "");
    const Loaded quantized =
        is_calibrated ? load_calibrated(path, bound.format) : load(path, bound.format);
    const Quality quality = compare(*base.model, *quantized.model, answers);
    fmt::print("{}\n", quality.row(name));
    EXPECT_LE(quality.mean_kl(), bound.mean_kl_max) << name;
    EXPECT_GT(quality.mean_kl(), 0.0) << "nothing was rounded";
  }
}

// A little above what was measured: a change that costs quality shows here.
TEST(Quality, SmolLm2StaysWithinItsBounds) {
  const Result<std::string> path = locate_model(kDefaultModel);
  if (!path) GTEST_SKIP() << "the default model is missing: ./dev setup fetches it";
  const Bound bounds[] = {
      {QuantizedFormat::kInt8, Rounding::kAtLoad, 0.0035},
      {QuantizedFormat::kInt4, Rounding::kAtLoad, 0.38},
      {QuantizedFormat::kInt8, Rounding::kCalibrated, 0.0017},
      {QuantizedFormat::kInt4, Rounding::kCalibrated, 0.12},
  };
  expect_quality(*path, read_answers("smollm2.json"), bounds);
}

TEST(Quality, Stories260kStaysWithinItsBounds) {
  const std::string path = MILLRACE_SOURCE_DIR "/../shared/data/models/stories260k";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "../shared/data/models/stories260k is missing";
  }
  const Bound bounds[] = {
      {QuantizedFormat::kInt8, Rounding::kAtLoad, 1e-3},
      {QuantizedFormat::kInt4, Rounding::kAtLoad, 0.08},
      {QuantizedFormat::kInt8, Rounding::kCalibrated, 1e-3},
      {QuantizedFormat::kInt4, Rounding::kCalibrated, 0.08},
  };
  expect_quality(path, read_answers("stories260k.json"), bounds);
}

}  // namespace
}  // namespace millrace
