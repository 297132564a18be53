// What transformers computes with tiny models (tools/goldens/model_goldens.py), for the tests of
// every runner, and logits as bits to compare.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "model/config.h"

namespace millrace {

struct GoldenPrompt {
  std::vector<TokenId> token_ids;
  std::vector<size_t> positions;
  json::object logits;  // by kind: [position][vocab]
};

struct Golden {
  std::string name;
  uint64_t seed = 0;
  ModelConfig config;
  std::vector<GoldenPrompt> prompts;
};

template <class T>
std::vector<T> numbers(const json::value& array) {
  std::vector<T> values;
  for (const json::value& value : array.as_array()) values.push_back(value.to_number<T>());
  return values;
}

inline Golden read_golden(const std::filesystem::path& path) {
  const json::value root = *read_json_file(path);
  Golden golden = {
      .name = path.stem(),
      .seed = root.at("seed").to_number<uint64_t>(),
      .config = *parse_model_config(root.at("config").as_object()),
      .prompts = {},
  };
  for (const json::value& prompt : root.at("prompts").as_array()) {
    golden.prompts.push_back(
        {numbers<TokenId>(prompt.at("token_ids")),
         numbers<size_t>(prompt.at("positions")),
         prompt.as_object()}
    );
  }
  return golden;
}

// Of every file of `folder`: tests/golden/models.
inline std::vector<Golden> read_goldens(const std::filesystem::path& folder) {
  std::vector<Golden> goldens;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") goldens.push_back(read_golden(entry.path()));
  }
  CHECK(goldens.size() >= 8, "the goldens are there");
  return goldens;
}

using Logits = std::vector<uint32_t>;  // the bits of [num_tokens, vocab]

inline void append_bits(std::span<const float> values, Logits& bits) {
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
}

// The largest |found - expected| / max |expected| of a row; infinity where one is not finite.
inline double row_error(std::span<const float> found, std::span<const float> expected) {
  double difference = 0.0;
  double scale = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(found[i])) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, std::abs(static_cast<double>(found[i] - expected[i])));
    scale = std::max(scale, std::abs(static_cast<double>(expected[i])));
  }
  return difference / scale;
}

// The largest row_error() of any stored position.
inline double largest_error(
    const GoldenPrompt& prompt, std::string_view kind, const Logits& logits
) {
  const size_t vocab = logits.size() / prompt.token_ids.size();
  double largest = 0.0;
  for (size_t i = 0; i < prompt.positions.size(); ++i) {
    const std::vector<float> expected = numbers<float>(prompt.logits.at(kind).at(i));
    CHECK(expected.size() == vocab, "logits of the whole vocabulary");
    std::vector<float> found(vocab);
    std::memcpy(found.data(), &logits[prompt.positions[i] * vocab], vocab * sizeof(float));
    largest = std::max(largest, row_error(found, expected));
  }
  return largest;
}

}  // namespace millrace
