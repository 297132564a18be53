#include "checkpoint/dummy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

namespace millrace {
namespace {

std::vector<TensorInfo> small_model() {
  std::vector<TensorInfo> infos(4);
  infos[0] = {.name = "model.norm.weight", .shape = {4096}};
  infos[1] = {.name = "q_proj.weight", .shape = {300, 256}};
  infos[2] = {.name = "q_proj.bias", .shape = {4096}};
  infos[3] = {.name = "k_proj.weight", .shape = {300, 256}};
  return infos;
}

std::unique_ptr<WeightSource> make(uint64_t seed) {
  return std::move(*make_dummy_weights(small_model(), seed));
}

std::vector<float> read(const WeightSource& source, std::string_view name) {
  const TensorInfo& info = *source.find(name);
  std::vector<float> values(static_cast<size_t>(info.num_rows() * info.row_length()));
  source.read_rows(info, 0, info.num_rows(), values);
  return values;
}

struct Moments {
  double mean = 0.0;
  double deviation = 0.0;
};

Moments moments_of(const std::vector<float>& values) {
  double sum = 0.0;
  double squares = 0.0;
  for (const float value : values) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto count = static_cast<double>(values.size());
  const double mean = sum / count;
  return {mean, std::sqrt(squares / count - mean * mean)};
}

TEST(DummyWeights, AreTheSameForTheSameSeedAndOthersForAnother) {
  EXPECT_EQ(read(*make(1), "q_proj.weight"), read(*make(1), "q_proj.weight"));
  EXPECT_NE(read(*make(1), "q_proj.weight"), read(*make(2), "q_proj.weight"));
  EXPECT_NE(read(*make(1), "q_proj.weight"), read(*make(1), "k_proj.weight"));
}

// Pinned so that a benchmark of today and one of next year run the same model.
TEST(DummyWeights, NeverChangeTheirValues) {
  const std::vector<float> values = read(*make(0), "q_proj.weight");
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 0x100000001b3ULL;
  }
  EXPECT_EQ(hash, 14396365174829569635ULL);
}

TEST(DummyWeights, HavePlausibleScales) {
  const auto source = make(3);
  const Moments matrix = moments_of(read(*source, "q_proj.weight"));
  EXPECT_NEAR(matrix.mean, 0.0, 0.001);
  EXPECT_NEAR(matrix.deviation, 1.0 / 16.0, 0.0005);
  const Moments norm = moments_of(read(*source, "model.norm.weight"));
  EXPECT_NEAR(norm.mean, 1.0, 0.005);
  EXPECT_NEAR(norm.deviation, 0.1 / std::sqrt(3.0), 0.002);
  const Moments bias = moments_of(read(*source, "q_proj.bias"));
  EXPECT_NEAR(bias.mean, 0.0, 0.002);
  EXPECT_NEAR(bias.deviation, 0.02, 0.001);
}

TEST(DummyWeights, NeighboursAndTensorsAreNotCorrelated) {
  const auto source = make(4);
  const std::vector<float> q = read(*source, "q_proj.weight");
  const std::vector<float> k = read(*source, "k_proj.weight");
  const auto correlation = [](const std::vector<float>& a, const std::vector<float>& b, size_t lag
                           ) {
    double products = 0.0;
    for (size_t i = lag; i < a.size(); ++i) {
      products += static_cast<double>(a[i - lag]) * static_cast<double>(b[i]);
    }
    return products / static_cast<double>(a.size()) * 256.0;  // variance 1 / 256
  };
  for (const size_t lag : {1U, 2U, 16U, 256U}) EXPECT_NEAR(correlation(q, q, lag), 0.0, 0.02);
  for (const size_t lag : {0U, 1U, 7U}) EXPECT_NEAR(correlation(q, k, lag), 0.0, 0.02);
}

TEST(DummyWeights, AnyThreadReadsAnyRowsInAnyOrder) {
  const auto source = make(5);
  const std::vector<float> all = read(*source, "q_proj.weight");
  const TensorInfo& info = *source->find("q_proj.weight");
  std::vector<float> pieces(all.size());
  const auto read_backwards = [&](int64_t begin, int64_t end) {
    for (int64_t row = end - 3; row >= begin; row -= 3) {
      source->read_rows(
          info, row, 3, std::span(pieces).subspan(static_cast<size_t>(row) * 256, 768)
      );
    }
  };
  {
    const std::jthread first(read_backwards, 0, 150);
    const std::jthread second(read_backwards, 150, 300);
  }
  EXPECT_EQ(pieces, all);
}

TEST(DummyWeights, MatricesHaveCodesOfFourBits) {
  const auto source = make(5);
  EXPECT_EQ(source->code_form(*source->find("model.norm.weight")), CodeForm{});
  const TensorInfo& info = *source->find("q_proj.weight");
  EXPECT_EQ(source->code_form(info), (CodeForm{4, 64, false}));
  const std::vector<float> values = read(*source, info.name);
  std::vector<uint8_t> codes(values.size());
  std::vector<float> scales(values.size() / 64);
  std::vector<float> bases(values.size() / 64);
  source->read_codes(info, 0, info.num_rows(), {codes, scales, bases, 64});
  for (size_t i = 0; i < values.size(); ++i) {
    const float scale = scales[i / 64];
    ASSERT_LT(codes[i], 16);
    // The largest values are a whole step beyond the last code.
    ASSERT_NEAR(static_cast<float>(codes[i]) * scale + bases[i / 64], values[i], 1.001F * scale);
  }
}

TEST(DummyWeights, IndicesBeyond32BitsAreNotRepetitions) {
  std::vector<TensorInfo> infos(1);
  infos[0] = {.name = "huge", .shape = {1 << 20, 1 << 14}};
  const auto source = std::move(*make_dummy_weights(infos, 1));
  const TensorInfo& info = *source->find("huge");
  std::vector<float> low(1 << 14);
  std::vector<float> high(1 << 14);
  source->read_rows(info, 0, 1, low);
  source->read_rows(info, 1 << 18, 1, high);  // index 2^32
  EXPECT_NE(low, high);
}

TEST(DummyWeights, RefuseANameThatStandsTwice) {
  std::vector<TensorInfo> infos(2);
  infos[0] = {.name = "a", .shape = {1}};
  infos[1] = {.name = "a", .shape = {1}};
  EXPECT_FALSE(make_dummy_weights(infos, 1));
}

}  // namespace
}  // namespace millrace
