// Models as the quality tests compare them: in bfloat16, rounded while loading, and calibrated as
// `millrace quantize` does it, without the way through a file.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/thread_pool.h"
#include "checkpoint/weight_source.h"
#include "model/cpu_model.h"
#include "quantization/quantize_model.h"
#include "server/local_model.h"

namespace millrace {

// Of every model here: the longest sequence, and the tokens of a batch.
inline constexpr int32_t kModelLenMax = 512;

// A model and the threads it borrows.
struct Loaded {
  std::unique_ptr<ThreadPool> threads;
  std::unique_ptr<CpuModel> model;
};

// In `dtype`, in `quantization`, or as they are stored where `path` is a quantized model.
Loaded load(
    const std::string& path,
    std::optional<Quantization> quantization,
    DType dtype = DType::kBFloat16
);

// The same of a checkpoint that another tool has rounded to codes of that form, each matrix of the
// layers, to what is nearest.
Loaded load_coded(
    const std::string& path,
    const CodeForm& form,
    std::optional<Quantization> quantization,
    DType dtype
);

// With an engine and its text side, in bfloat16.
LocalModel load_speaking(const std::string& path);

// Tokens of each answer that calibration reads in the tests of every day: half of what the command
// takes. On average it changes nothing (docs/decisions/0014); a token here or there is another.
inline constexpr int32_t kFewAnswerTokens = 32;

using Texts = std::vector<std::vector<TokenId>>;

// The answers of the bfloat16 model that calibration reads.
Texts calibration_texts(const std::string& path, int32_t num_answer_tokens = kFewAnswerTokens);

QuantizedModel calibrate(
    const std::string& path, QuantizedFormat format, const Texts& texts, ThreadPool& pool
);
Loaded load_calibrated(
    const std::string& path, const Quantization& quantization, const Texts& texts
);

// How a model's weights became codes.
enum class Rounding { kAtLoad, kCalibrated };

struct Variant {
  Quantization quantization;
  Rounding rounding;

  std::string name() const;  // "int8, calibrated"
};

Loaded load(const std::string& path, const Variant& variant, const Texts& texts);

// The default model's path; none where it is missing.
std::optional<std::string> smollm2_path();

// A prompt of tests/golden/greedy with the answer that transformers gave.
struct Answer {
  std::vector<TokenId> tokens;  // prompt and answer
  size_t num_answer_tokens = 0;

  TokenId token(size_t i) const { return tokens[tokens.size() - num_answer_tokens + i]; }
};
std::vector<Answer> golden_answers(const std::string& name);

// The logits after each of the last `num_rows` tokens: [num_rows, vocab_size], valid until the next
// call.
std::span<const float> forward(CpuModel& model, std::span<const TokenId> tokens, size_t num_rows);
// Those from which an answer's tokens are chosen: after each but the last, which has no successor.
std::span<const float> forward(CpuModel& model, const Answer& answer);

}  // namespace millrace
