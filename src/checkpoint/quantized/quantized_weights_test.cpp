#include "checkpoint/quantized/quantized_weights.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/math.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/dequantize.h"
#include "checkpoint/test_files.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using namespace testing_files;

std::vector<float> values_of(const WeightSource& source, const TensorInfo& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.num_rows() * tensor.row_length()));
  source.read_rows(tensor, 0, tensor.num_rows(), values);
  return values;
}

// What its codes, scales and bases stand for.
std::vector<float> values_of_codes(
    const WeightSource& source, const TensorInfo& tensor, size_t num_inputs
) {
  const auto rows = static_cast<size_t>(tensor.num_rows());
  const auto width = static_cast<size_t>(tensor.row_length());
  const size_t num_scales = div_ceil(width, num_inputs);
  std::vector<uint8_t> codes(rows * width);
  std::vector<float> scales(rows * num_scales);
  std::vector<float> bases(rows * num_scales);
  source.read_codes(tensor, 0, tensor.num_rows(), {codes, scales, bases, num_inputs});
  std::vector<float> values(codes.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t place = i / width * num_scales + i % width / num_inputs;
    values[i] = static_cast<float>(codes[i]) * scales[place] + bases[place];
  }
  return values;
}

class QuantizedGolden : public testing::TestWithParam<std::string> {};

// Written and read by the tools that publish such checkpoints: tools/goldens/.
TEST_P(QuantizedGolden, ReadsWhatItsToolReads) {
  const std::string directory =
      MILLRACE_SOURCE_DIR "/tests/golden/checkpoint/quantized/" + GetParam();
  const Result<Checkpoint> checkpoint = open_checkpoint(directory);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->config.if_contains("quantization_config"), nullptr);
  const Result<json::value> golden = read_json_file(directory + "/expected.json");
  ASSERT_TRUE(golden) << golden.error().message;
  const json::object& tensors = golden->at("tensors").as_object();
  EXPECT_GE(tensors.size(), 3);
  EXPECT_EQ(checkpoint->weights->tensors().size(), tensors.size());
  for (const auto& [name, expected] : tensors) {
    const TensorInfo* info = checkpoint->weights->find(name);
    ASSERT_NE(info, nullptr) << name;
    EXPECT_EQ(info->shape, json::value_to<std::vector<int64_t>>(expected.at("shape")));
    EXPECT_EQ(expected.at("fnv1a").as_string(), fnv1a(values_of(*checkpoint->weights, *info)))
        << name;
  }
}

// To a rounding of the products. However few are asked for together, the weights are the same.
void expect_codes(const WeightSource& weights, const TensorInfo& tensor) {
  const std::vector<float> values = values_of(weights, tensor);
  const size_t stored = weights.code_form(tensor).num_inputs;
  for (const size_t num_inputs : {stored, size_t{32}, size_t{16}}) {
    const std::vector<float> found = values_of_codes(weights, tensor, num_inputs);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(found[i], values[i], 1e-6F) << tensor.name << ' ' << num_inputs << ": " << i;
    }
  }
}

TEST(QuantizedWeights, HaveCodesWhereGroupsAreInOrder) {
  const CodeForm of_4_bits = {4, 64, false};
  const CodeForm of_8_bits = {8, 64, true};
  const std::map<std::string, CodeForm> cases = {
      {"awq", of_4_bits},
      {"gptq", {4, 64, true}},
      {"gptq_act_order", {}},
      {"gptq_v2", {8, 64, false}},
      {"gptq_3bit", {3, 32, false}},
      {"gptq_2bit", {2, 32, false}},
      {"fp8_block", {}},
      {"fp8_tensor", {}},
      {"ct_int4", {4, 64, true}},
      {"ct_int4_zeros", of_4_bits},
      {"ct_int4_act_order", {}},
      {"ct_int8", of_8_bits},
      {"ct_int8_packed", of_8_bits},
      {"ct_fp8", {}}};
  for (const auto& [name, form] : cases) {
    const Result<Checkpoint> checkpoint =
        open_checkpoint(MILLRACE_SOURCE_DIR "/tests/golden/checkpoint/quantized/" + name);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    const WeightSource& weights = *checkpoint->weights;
    for (const TensorInfo& tensor : weights.tensors()) {
      const bool is_matrix = tensor.shape.size() == 2;
      ASSERT_EQ(weights.code_form(tensor), is_matrix ? form : CodeForm{})
          << name << ' ' << tensor.name;
      if (is_matrix && form) expect_codes(weights, tensor);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All,
    QuantizedGolden,
    testing::Values(
        "awq",
        "gptq",
        "gptq_act_order",
        "gptq_v2",
        "gptq_3bit",
        "gptq_2bit",
        "fp8_block",
        "fp8_tensor",
        "ct_int4",
        "ct_int4_zeros",
        "ct_int4_act_order",
        "ct_int8",
        "ct_fp8",
        "ct_fp8_block",
        "ct_int8_packed"
    ),
    [](const auto& test) { return test.param; }
);

// Tensors in memory, each in bytes of its own, so that a read beyond them is seen.
class MemorySource : public WeightSource {
 public:
  // `type`: as a safetensors header has it.
  void add(std::string name, std::string_view type, std::vector<int64_t> shape, std::string bytes) {
    TensorInfo info{.name = std::move(name), .storage = StorageType::kOther, .shape = {}};
    info.shape = std::move(shape);
    if (type == "F16") info.storage = StorageType::kF16;
    if (type == "BF16") info.storage = StorageType::kBF16;
    if (type == "F32") info.storage = StorageType::kF32;
    if (info.storage == StorageType::kOther) info.storage_name = type;
    bytes_[info.name] = std::vector<char>(bytes.begin(), bytes.end());
    infos_.push_back(std::move(info));
  }
  std::span<const TensorInfo> tensors() const override { return infos_; }
  const TensorInfo* find(std::string_view name) const override {
    const auto found = std::ranges::find(infos_, name, &TensorInfo::name);
    return found == infos_.end() ? nullptr : &*found;
  }
  void read_rows(const TensorInfo& tensor, int64_t begin, int64_t count, std::span<float> out)
      const override {
    const size_t size =
        static_cast<size_t>(tensor.row_length()) * block_layout(tensor.storage).block_bytes;
    const auto bytes = raw_bytes(tensor).subspan(static_cast<size_t>(begin) * size);
    dequantize(tensor.storage, bytes.first(static_cast<size_t>(count) * size), out);
  }
  std::span<const std::byte> raw_bytes(const TensorInfo& tensor) const override {
    return std::as_bytes(std::span(bytes_.at(tensor.name)));
  }

 private:
  std::vector<TensorInfo> infos_;
  std::map<std::string, std::vector<char>, std::less<>> bytes_;
};

std::string floats(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) append(bytes, value);
  return bytes;
}

std::string words(const std::vector<uint32_t>& values) {
  std::string bytes;
  for (const uint32_t value : values) append(bytes, value);
  return bytes;
}

// What a test changes of a right AWQ matrix of 8 rows and 2 inputs in 2 groups.
struct AwqParts {
  std::string codes_type = "I32";
  std::vector<int64_t> codes_shape = {2, 1};
  std::string zeros_type = "I32";
  std::vector<int64_t> scales_shape = {2, 8};
  bool has_scales = true;
};

std::unique_ptr<MemorySource> awq_source(const AwqParts& parts = {}) {
  auto source = std::make_unique<MemorySource>();
  source->add("m.qweight", parts.codes_type, parts.codes_shape, words({0x75316420, 0x88888888}));
  source->add("m.qzeros", parts.zeros_type, {2, 1}, words({0x11111111, 0x99999999}));
  if (parts.has_scales) {
    source->add("m.scales", "F32", parts.scales_shape, floats(std::vector<float>(16, 0.5F)));
  }
  source->add("norm.weight", "F32", {2}, floats({3, 4}));
  return source;
}

TEST(PlainWeights, PassOnWhatIsNotQuantized) {
  const QuantizationConfig awq{.method = QuantizationMethod::kAwq, .group_size = 1};
  const auto weights = plain_weights(awq_source(), awq);
  ASSERT_TRUE(weights) << weights.error().message;
  ASSERT_EQ((*weights)->tensors().size(), 2);
  const TensorInfo* matrix = (*weights)->find("m.weight");
  ASSERT_NE(matrix, nullptr);
  EXPECT_THAT(matrix->shape, ElementsAre(8, 2));
  EXPECT_TRUE((*weights)->raw_bytes(*matrix).empty());
  EXPECT_THAT(
      values_of(**weights, *matrix),
      ElementsAre(-0.5, -0.5, 0, -0.5, 0.5, -0.5, 1, -0.5, 1.5, -0.5, 2, -0.5, 2.5, -0.5, 3, -0.5)
  );
  std::vector<float> rows(4);
  (*weights)->read_rows(*matrix, 5, 2, rows);
  EXPECT_THAT(rows, ElementsAre(2, -0.5, 2.5, -0.5));
  const TensorInfo* norm = (*weights)->find("norm.weight");
  ASSERT_NE(norm, nullptr);
  EXPECT_THAT(values_of(**weights, *norm), ElementsAre(3, 4));
  EXPECT_EQ((*weights)->raw_bytes(*norm).size(), 8);
}

Error error_of(std::unique_ptr<WeightSource> source, const QuantizationConfig& config) {
  const auto weights = plain_weights(std::move(source), config);
  EXPECT_FALSE(weights);
  return weights ? Error{} : weights.error();
}

TEST(PlainWeights, NameTheTensorThatIsWrong) {
  const QuantizationConfig awq{.method = QuantizationMethod::kAwq, .group_size = 1};
  EXPECT_THAT(
      error_of(awq_source({.has_scales = false}), awq).message,
      HasSubstr("tensor 'm.scales' is missing, without which 'm' cannot be read")
  );
  EXPECT_THAT(
      error_of(awq_source({.codes_type = "U32"}), awq).message,
      HasSubstr("tensor 'm.qweight' is of U32: expected I32")
  );
  EXPECT_THAT(
      error_of(awq_source({.codes_shape = {2}}), awq).message,
      HasSubstr("tensor 'm.qweight' has shape [2]: expected two dimensions")
  );
  EXPECT_THAT(
      error_of(awq_source({.scales_shape = {1, 16}}), awq).message,
      HasSubstr("tensor 'm.scales' has shape [1, 16]: expected [groups, 8]")
  );
  EXPECT_EQ(error_of(awq_source({.zeros_type = "F32"}), awq).where, "m.qzeros");
  EXPECT_THAT(
      error_of(awq_source(), {.method = QuantizationMethod::kAwq}).message,
      HasSubstr("tensor 'm.scales' has shape [2, 8]: expected 1 groups of 2 inputs")
  );
}

// Two groups of four inputs, whose scales are 1 and 2; `groups` are those that g_idx names.
std::unique_ptr<MemorySource> gptq_source(const std::vector<uint32_t>& groups) {
  auto source = std::make_unique<MemorySource>();
  source->add("m.qweight", "I32", {1, 8}, words(std::vector<uint32_t>(8, 0x11111111)));
  source->add("m.qzeros", "I32", {2, 1}, words({0, 0}));
  std::vector<float> scales(16, 1);
  for (size_t i = 8; i < 16; ++i) scales[i] = 2;
  source->add("m.scales", "F32", {2, 8}, floats(scales));
  source->add("m.g_idx", "I32", {8}, words(groups));
  return source;
}

TEST(PlainWeights, TakeGroupsOfGptqAsTheyAreListed) {
  const QuantizationConfig gptq{.method = QuantizationMethod::kGptq, .group_size = 4};
  const auto first_row = [&](const std::vector<uint32_t>& groups) {
    const auto weights = plain_weights(gptq_source(groups), gptq);
    EXPECT_TRUE(weights) << weights.error().message;
    std::vector<float> row(8);
    if (weights) (*weights)->read_rows((*weights)->tensors()[0], 0, 1, row);
    return row;
  };
  EXPECT_THAT(first_row({0, 0, 0, 0, 1, 1, 1, 1}), ElementsAre(1, 1, 1, 1, 2, 2, 2, 2));
  EXPECT_THAT(first_row({1, 0, 1, 0, 0, 1, 0, 1}), ElementsAre(2, 1, 2, 1, 1, 2, 1, 2));
  // What some write where nobody is to look.
  EXPECT_THAT(first_row({0, 0, 0, 0, 0, 0, 0, 0}), ElementsAre(1, 1, 1, 1, 2, 2, 2, 2));
}

// A rule for single matrices ("dynamic") may give one other bits than config.json states.
TEST(PlainWeights, CountTheBitsOfGptqByItsInputs) {
  auto source = std::make_unique<MemorySource>();
  std::string codes;
  for (uint32_t byte = 0; byte < 2; ++byte) {  // two words of four codes, the same in each row
    codes += words(std::vector<uint32_t>(8, 0x04030201U + 0x04040404U * byte));
  }
  source->add("m.qweight", "I32", {2, 8}, codes);
  source->add("m.qzeros", "I32", {1, 2}, words({0x01010101, 0x01010101}));
  source->add("m.scales", "F32", {1, 8}, floats(std::vector<float>(8, 0.5F)));
  source->add("m.g_idx", "I32", {8}, words(std::vector<uint32_t>(8, 0)));
  const auto weights = plain_weights(
      std::move(source), {.method = QuantizationMethod::kGptq, .bits = 4, .group_size = 8}
  );
  ASSERT_TRUE(weights) << weights.error().message;
  std::vector<float> row(8);
  (*weights)->read_rows((*weights)->tensors()[0], 3, 1, row);
  EXPECT_THAT(row, ElementsAre(0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5));
  EXPECT_EQ((*weights)->code_form((*weights)->tensors()[0]), (CodeForm{8, 64, false}));
}

TEST(PlainWeights, TakeTheZeroPointsOfInt8) {
  auto source = std::make_unique<MemorySource>();
  source->add("m.weight", "I8", {2, 2}, "\x01\xff\x05\x80");
  source->add("m.weight_scale", "F32", {2, 1}, floats({0.5F, 2}));
  source->add("m.weight_zero_point", "I8", {2, 1}, "\xfe\x03");
  const auto weights =
      plain_weights(std::move(source), {.method = QuantizationMethod::kCompressedTensors});
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_THAT(values_of(**weights, (*weights)->tensors()[0]), ElementsAre(1.5, 0.5, 4, -262));
}

std::string any_bytes(size_t size) {
  std::mt19937 random(3);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Of 8 rows and 128 inputs in 8 bits. `zeros`: the word of the zero points of rows 4 to 7 in the
// last group; all others are the middle.
constexpr size_t kRowsOf8Bits = 8;
constexpr size_t kInputsOf8Bits = 128;

std::vector<float> scales_of_8_bits(size_t groups) {
  std::vector<float> scales(groups * kRowsOf8Bits);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.001F * static_cast<float>(i + 1);
  return scales;
}

std::unique_ptr<WeightSource> gptq_of_8_bits(int64_t group_size, uint32_t zeros) {
  const auto groups = static_cast<int64_t>(kInputsOf8Bits) / group_size;
  auto source = std::make_unique<MemorySource>();
  source->add("m.qweight", "I32", {32, 8}, any_bytes(kRowsOf8Bits * kInputsOf8Bits));
  std::vector<uint32_t> all_zeros(static_cast<size_t>(groups) * 2, 0x7F7F7F7F);
  all_zeros.back() = zeros;
  source->add("m.qzeros", "I32", {groups, 2}, words(all_zeros));
  source->add(
      "m.scales", "F32", {groups, 8}, floats(scales_of_8_bits(static_cast<size_t>(groups)))
  );
  QuantizationConfig config{.method = QuantizationMethod::kGptq, .bits = 8};
  config.group_size = group_size;
  config.zeros_are_one_less = true;
  return *plain_weights(std::move(source), config);
}

// Packed in words, or bytes with a sign, whose middle is 0.
std::unique_ptr<WeightSource> compressed_of_8_bits(
    bool is_packed, int64_t groups, std::optional<uint32_t> zeros
) {
  auto source = std::make_unique<MemorySource>();
  const std::string bytes = any_bytes(kRowsOf8Bits * kInputsOf8Bits);
  std::vector<uint32_t> all_zeros(static_cast<size_t>(groups) * 2, is_packed ? 0x80808080 : 0);
  all_zeros.back() = zeros.value_or(0);
  if (is_packed) {
    std::string shape;
    for (const int64_t length : {int64_t{8}, int64_t{128}}) append(shape, length);
    source->add("m.weight_packed", "I32", {8, 32}, bytes);
    source->add("m.weight_shape", "I64", {2}, shape);
    if (zeros) source->add("m.weight_zero_point", "I32", {2, groups}, words(all_zeros));
  } else {
    source->add("m.weight", "I8", {8, 128}, bytes);
    if (zeros) source->add("m.weight_zero_point", "I8", {8, groups}, words(all_zeros));
  }
  source->add(
      "m.weight_scale", "F32", {8, groups}, floats(scales_of_8_bits(static_cast<size_t>(groups)))
  );
  return *plain_weights(
      std::move(source), {.method = QuantizationMethod::kCompressedTensors, .bits = 8}
  );
}

void expect_symmetric_codes(const WeightSource& weights, size_t num_inputs) {
  const TensorInfo& tensor = weights.tensors()[0];
  ASSERT_EQ(weights.code_form(tensor), (CodeForm{8, num_inputs, true}));
  expect_codes(weights, tensor);
  std::vector<uint8_t> codes(kRowsOf8Bits * kInputsOf8Bits);
  std::vector<float> scales(codes.size() / num_inputs);
  std::vector<float> bases(scales.size());
  weights.read_codes(tensor, 0, tensor.num_rows(), {codes, scales, bases, num_inputs});
  for (size_t i = 0; i < scales.size(); ++i) ASSERT_EQ(bases[i], -128.0F * scales[i]) << i;
}

CodeForm form_of(const std::unique_ptr<WeightSource>& weights) {
  return weights->code_form(weights->tensors()[0]);
}

TEST(PlainWeights, AreSymmetricWhereEveryZeroPointIsTheMiddle) {
  expect_symmetric_codes(*gptq_of_8_bits(128, 0x7F7F7F7F), 64);
  expect_symmetric_codes(*gptq_of_8_bits(64, 0x7F7F7F7F), 64);
  expect_symmetric_codes(*gptq_of_8_bits(32, 0x7F7F7F7F), 32);
  EXPECT_EQ(form_of(gptq_of_8_bits(16, 0x7F7F7F7F)), CodeForm{});
  constexpr CodeForm kNotSymmetric = {8, 64, false};
  EXPECT_EQ(form_of(gptq_of_8_bits(64, 0x7E7F7F7F)), kNotSymmetric);
  for (const bool is_packed : {false, true}) {
    const uint32_t middle = is_packed ? 0x80808080 : 0;
    expect_symmetric_codes(*compressed_of_8_bits(is_packed, 1, {}), 64);
    expect_symmetric_codes(*compressed_of_8_bits(is_packed, 4, {}), 32);
    expect_symmetric_codes(*compressed_of_8_bits(is_packed, 2, middle), 64);
    EXPECT_EQ(form_of(compressed_of_8_bits(is_packed, 8, {})), CodeForm{});
    EXPECT_EQ(form_of(compressed_of_8_bits(is_packed, 2, middle + 0x01000000)), kNotSymmetric);
    EXPECT_EQ(form_of(compressed_of_8_bits(is_packed, 1, middle + 1)), kNotSymmetric);
  }
}

TEST(PlainWeights, RefuseAnInputOfAGroupThatThereIsNot) {
  const QuantizationConfig gptq{.method = QuantizationMethod::kGptq, .group_size = 4};
  EXPECT_THAT(
      error_of(gptq_source({0, 1, 0, 1, 0, 1, 0, 2}), gptq).message,
      HasSubstr("tensor 'm.g_idx': input 7 is of group 2, and there are 2")
  );
}

// A first -1 had the whole list passed over.
TEST(PlainWeights, TakeMinusOneForAllInputsOfCompressedTensorsAlone) {
  constexpr uint32_t kNone = 0xFFFFFFFF;
  const QuantizationConfig gptq{.method = QuantizationMethod::kGptq, .group_size = 4};
  const std::string expected = "m.g_idx': input 0 is of group -1, and there are 2";
  EXPECT_THAT(
      error_of(gptq_source({kNone, 0, 0, 0, 1, 1, 1, 1}), gptq).message, HasSubstr(expected)
  );
  EXPECT_THAT(
      error_of(gptq_source(std::vector<uint32_t>(8, kNone)), gptq).message, HasSubstr(expected)
  );

  const QuantizationConfig compressed{
      .method = QuantizationMethod::kCompressedTensors, .group_size = 1, .group_sizes = {1}};
  const auto source_of = [](const std::vector<uint32_t>& groups) {
    auto source = std::make_unique<MemorySource>();
    source->add("m.weight", "I8", {1, 2}, std::string("\2\4"));
    source->add("m.weight_scale", "F32", {1, 2}, floats({1, 2}));
    source->add("m.weight_g_idx", "I32", {2}, words(groups));
    return source;
  };
  const auto weights = plain_weights(source_of({kNone, kNone}), compressed);
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_THAT(values_of(**weights, (*weights)->tensors()[0]), ElementsAre(2, 8));
  EXPECT_THAT(
      error_of(source_of({kNone, 0}), compressed).message,
      HasSubstr("m.weight_g_idx': input 0 is of group -1, and there are 2")
  );
}

TEST(PlainWeights, RefuseFloat8WithTwoScales) {
  auto source = std::make_unique<MemorySource>();
  source->add("m.weight", "F8_E4M3", {1, 2}, "ab");
  source->add("m.weight_scale", "F32", {}, floats({0.5F}));
  source->add("m.weight_scale_inv", "F32", {1, 1}, floats({2}));
  EXPECT_EQ(
      error_of(std::move(source), {.method = QuantizationMethod::kFp8}),
      invalid_argument(
          "tensor 'm.weight' has both 'm.weight_scale' and 'm.weight_scale_inv': expected one of "
          "them",
          "m.weight_scale_inv"
      )
  );
}

TEST(PlainWeights, RefuseScalesOfOneRowForAll) {
  auto source = std::make_unique<MemorySource>();
  source->add("m.weight", "F8_E4M3", {4, 4}, std::string(16, '\x38'));
  source->add("m.weight_scale", "F32", {1, 4}, floats({1, 2, 3, 4}));
  EXPECT_EQ(
      error_of(std::move(source), {.method = QuantizationMethod::kFp8}).where, "m.weight_scale"
  );
}

TEST(PlainWeights, RefuseAMatrixThatIsStoredTwice) {
  auto source = awq_source();
  source->add("m.weight", "F32", {8, 2}, floats(std::vector<float>(16, 1)));
  const Error error =
      error_of(std::move(source), {.method = QuantizationMethod::kAwq, .group_size = 1});
  EXPECT_THAT(error.message, HasSubstr("m.weight"));
}

TEST(PlainWeights, RefuseFloat8WithoutAScale) {
  auto source = std::make_unique<MemorySource>();
  source->add("m.weight", "F8_E4M3", {1, 2}, "ab");
  const Error error = error_of(std::move(source), {.method = QuantizationMethod::kFp8});
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_EQ(error.where, "m.weight_scale");
}

TEST(PlainWeights, LeaveOutScalesOfActivationsAndCaches) {
  auto source = std::make_unique<MemorySource>();
  source->add("m.weight", "F8_E4M3", {1, 2}, "\x38\x40");
  source->add("m.weight_scale", "F32", {}, floats({0.5F}));
  source->add("m.input_scale", "F32", {}, floats({0.25F}));
  source->add("self_attn.k_scale", "F32", {1}, floats({0.25F}));
  const auto weights = plain_weights(std::move(source), {.method = QuantizationMethod::kFp8});
  ASSERT_TRUE(weights) << weights.error().message;
  ASSERT_EQ((*weights)->tensors().size(), 1);
  EXPECT_THAT(values_of(**weights, (*weights)->tensors()[0]), ElementsAre(0.5, 1));
}

// One tensor of a matrix, and what it may be instead of what it should.
struct Part {
  std::string_view name;
  std::string_view type;
  std::string_view other_type;
  std::vector<int64_t> shape;
};

// Of a right matrix of `rows` x `columns` in `groups`, of those that each layout knows.
std::vector<Part> parts_of(
    QuantizationMethod method, int64_t bits, int64_t rows, int64_t columns, int64_t groups
) {
  const auto words_of = [&](int64_t length) { return (length * bits + 31) / 32; };
  const Part scales = {"scales", "F16", "F32", {groups, rows}};
  const Part zeros = {"qzeros", "I32", "F32", {groups, words_of(rows)}};
  switch (method) {
    case QuantizationMethod::kAwq:
      return {{"qweight", "I32", "I16", {columns, words_of(rows)}}, scales, zeros};
    case QuantizationMethod::kGptq:
      return {
          {"qweight", "I32", "I16", {words_of(columns), rows}},
          scales,
          zeros,
          {"g_idx", "I32", "F32", {columns}}};
    case QuantizationMethod::kFp8:
      return {
          {"weight", "F8_E4M3", "F16", {rows, columns}},
          {"weight_scale_inv", "F32", "BF16", {rows, groups}},
          {"weight_zero_point", "I8", "I32", {rows, groups}}};
    case QuantizationMethod::kCompressedTensors:
      return {
          {"weight_packed", "I32", "I8", {rows, words_of(columns)}},
          {"weight_shape", "I64", "I32", {2}},
          {"weight_scale", "BF16", "F32", {rows, groups}},
          {"weight_zero_point", "I32", "I8", {words_of(rows), groups}},
          {"weight_g_idx", "I32", "I64", {columns}}};
  }
  return {};
}

// One row of 10 inputs, 0 to 9 less 8, in groups of 7: the scales are 1 and 100.
std::unique_ptr<MemorySource> short_group_source() {
  auto source = std::make_unique<MemorySource>();
  source->add("m.weight_packed", "I32", {1, 2}, words({0x76543210, 0x98}));
  source->add("m.weight_shape", "I64", {2}, words({1, 0, 10, 0}));
  source->add("m.weight_scale", "F32", {1, 2}, floats({1, 100}));
  return source;
}

// The size was guessed from the number of groups: 5 here, and the weights were others.
TEST(PlainWeights, TakeTheSizeOfGroupsOfWhichTheLastIsShortFromTheConfiguration) {
  QuantizationConfig config{.method = QuantizationMethod::kCompressedTensors};
  for (const std::vector<int64_t>& stated : {std::vector<int64_t>{7}, {128, 7}}) {
    config.group_sizes = stated;
    const auto weights = plain_weights(short_group_source(), config);
    ASSERT_TRUE(weights) << weights.error().message;
    EXPECT_THAT(
        values_of(**weights, *(*weights)->find("m.weight")),
        ElementsAre(-8, -7, -6, -5, -4, -3, -2, -100, 0, 100)
    );
  }
}

TEST(PlainWeights, RefuseGroupsThatAreNotThoseOfTheConfiguration) {
  QuantizationConfig config{.method = QuantizationMethod::kCompressedTensors};
  for (const std::vector<int64_t>& stated : {std::vector<int64_t>{4}, {7, 5}}) {
    config.group_sizes = stated;
    const auto weights = plain_weights(short_group_source(), config);
    ASSERT_FALSE(weights);
    EXPECT_THAT(
        weights.error().message,
        HasSubstr(fmt::format(
            "'m.weight_scale' has shape [1, 2]: expected scales of all, of rows, of groups of {} "
            "inputs or of the blocks of a matrix [1, 10]",
            fmt::join(stated, " or ")
        ))
    );
  }
}

// Any shapes: read within their bytes (which the address sanitizer sees), or refused.
TEST(PlainWeights, AnyShapesAreReadOrRefused) {
  std::mt19937 random(11);
  const auto below = [&](uint32_t limit) { return static_cast<int64_t>(random() % limit); };
  size_t num_read = 0;
  size_t num_refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    QuantizationConfig config{
        .method = static_cast<QuantizationMethod>(below(4)),
        .bits = std::array{2, 3, 4, 8}[static_cast<size_t>(below(4))],
        .group_size = below(9),
        .zeros_are_one_less = below(2) == 0,
        .block_rows = below(3),
        .block_columns = 1 + below(2)};
    if (below(2) == 0) config.group_sizes = {1 + below(9)};
    const bool is_gptq = config.method == QuantizationMethod::kGptq;
    const std::array shape{1 + below(20), 1 + below(20)};
    const int64_t groups = 1 + below(3);
    auto source = std::make_unique<MemorySource>();
    for (Part& part :
         parts_of(config.method, is_gptq ? config.bits : 4, shape[0], shape[1], groups)) {
      if (below(12) == 0) continue;
      if (below(20) == 0) part.type = part.other_type;
      if (below(16) == 0) part.shape.push_back(1 + below(3));
      if (below(8) == 0) {
        int64_t& length = part.shape[static_cast<size_t>(below(2)) % part.shape.size()];
        length = std::max<int64_t>(length + below(3) - 1, 0);
      }
      int64_t size = part.type == "I64" ? 8 : part.type == "I32" || part.type == "F32" ? 4 : 2;
      if (part.type == "I8" || part.type == "F8_E4M3") size = 1;
      for (const int64_t length : part.shape) size *= length;
      std::string bytes(static_cast<size_t>(size), '\0');
      // Groups of inputs are sometimes right; of codes and scales every byte is.
      const bool is_index = part.name.ends_with("g_idx");
      for (size_t j = 0; j < bytes.size(); j += is_index ? 4 : 1) {
        bytes[j] = static_cast<char>(below(is_index ? static_cast<uint32_t>(groups) + 1 : 256));
      }
      if (part.name == "weight_shape" && size == 16) {
        const std::array<int64_t, 2> stated{shape[0], below(9) == 0 ? below(300) : shape[1]};
        std::memcpy(bytes.data(), stated.data(), sizeof stated);
      }
      source->add(fmt::format("m.{}", part.name), part.type, part.shape, std::move(bytes));
    }
    const auto weights = plain_weights(std::move(source), config);
    if (!weights) {
      ASSERT_FALSE(weights.error().message.empty());
      ++num_refused;
      continue;
    }
    for (const TensorInfo& tensor : (*weights)->tensors()) {
      if (tensor.name != "m.weight" || tensor.storage == StorageType::kOther) continue;
      const std::vector<float> values = values_of(**weights, tensor);
      const CodeForm form = (*weights)->code_form(tensor);
      if (form) values_of_codes(**weights, tensor, form.num_inputs);
      ++num_read;
    }
  }
  EXPECT_GT(num_read, 2000);
  EXPECT_GT(num_refused, 2000);
}

}  // namespace
}  // namespace millrace
