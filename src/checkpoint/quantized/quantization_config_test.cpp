#include "checkpoint/quantized/quantization_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

using testing::HasSubstr;

Result<std::optional<QuantizationConfig>> read(const std::string& quantization) {
  const Result<json::value> config = parse_json("{\"quantization_config\": " + quantization + "}");
  EXPECT_TRUE(config) << quantization;
  return read_quantization_config(config->as_object());
}

QuantizationConfig config_of(const std::string& quantization) {
  const auto config = read(quantization);
  EXPECT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config && config->has_value()) << quantization;
  return config && *config ? **config : QuantizationConfig{};
}

Error error_of(const std::string& quantization) {
  const auto config = read(quantization);
  EXPECT_FALSE(config) << quantization;
  return config ? Error{} : config.error();
}

TEST(ReadQuantizationConfig, LeavesOthersAlone) {
  EXPECT_FALSE(read("null")->has_value());
  EXPECT_FALSE(read("[]")->has_value());
  EXPECT_FALSE(read(R"({"bits": 4})")->has_value());
  EXPECT_FALSE(read(R"({"quant_method": "millrace", "format": "int8"})")->has_value());
  EXPECT_FALSE(read(R"({"quant_method": "bitsandbytes"})")->has_value());
  EXPECT_FALSE(read_quantization_config(json::object())->has_value());
}

TEST(ReadQuantizationConfig, HasAnOlderName) {
  const Result<json::value> config =
      parse_json(R"({"compression_config": {"quant_method": "awq", "bits": 3}})");
  const auto found = read_quantization_config(config->as_object());
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().where, "compression_config.bits");
}

TEST(ReadQuantizationConfig, Awq) {
  const QuantizationConfig config = config_of(
      R"({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true,
          "version": "GEMM", "modules_to_not_convert": null})"
  );
  EXPECT_EQ(config.method, QuantizationMethod::kAwq);
  EXPECT_EQ(config.group_size, 128);
  EXPECT_EQ(config_of(R"({"quant_method": "awq", "w_bit": 4, "q_group_size": 64})").group_size, 64);
  EXPECT_EQ(error_of(R"({"quant_method": "awq", "w_bit": 3})").where, "quantization_config.w_bit");
  const Error version = error_of(R"({"quant_method": "awq", "version": "gemv"})");
  EXPECT_THAT(version.message, HasSubstr("version 'gemv' is not supported (gemm)"));
  EXPECT_EQ(version.where, "quantization_config.version");
  EXPECT_THAT(error_of(R"({"quant_method": "awq", "bits": 8})").message, HasSubstr("8 bits"));
  EXPECT_EQ(
      error_of(R"({"quant_method": "awq", "group_size": 0})").where,
      "quantization_config.group_size"
  );
}

TEST(ReadQuantizationConfig, GptqOfBothVersions) {
  const QuantizationConfig first =
      config_of(R"({"quant_method": "gptq", "bits": 8, "group_size": -1, "desc_act": true})");
  EXPECT_EQ(first.bits, 8);
  EXPECT_EQ(first.group_size, 0);
  EXPECT_TRUE(first.zeros_are_one_less);
  const QuantizationConfig second = config_of(
      R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq_v2"})"
  );
  EXPECT_EQ(second.group_size, 32);
  EXPECT_FALSE(second.zeros_are_one_less);
  EXPECT_FALSE(config_of(R"({"quant_method": "gptq", "format": "gptq_v2"})").zeros_are_one_less);
  EXPECT_THAT(
      error_of(R"({"quant_method": "gptq", "checkpoint_format": "marlin"})").message,
      HasSubstr("checkpoint_format 'marlin' is not supported (gptq, gptq_v2)")
  );
  EXPECT_THAT(error_of(R"({"quant_method": "gptq", "bits": 5})").message, HasSubstr("5 bits"));
  EXPECT_EQ(
      error_of(R"({"quant_method": "gptq", "pack_dtype": "int16"})").where,
      "quantization_config.pack_dtype"
  );
}

TEST(ReadQuantizationConfig, Fp8) {
  const QuantizationConfig blocks =
      config_of(R"({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 64]})");
  EXPECT_EQ(blocks.block_rows, 128);
  EXPECT_EQ(blocks.block_columns, 64);
  EXPECT_EQ(config_of(R"({"quant_method": "fp8"})").block_rows, 0);
  EXPECT_EQ(error_of(R"({"quant_method": "fp8", "fmt": "e5m2"})").where, "quantization_config.fmt");
  EXPECT_THAT(
      error_of(R"({"quant_method": "fp8", "weight_block_size": [128]})").message,
      HasSubstr("two integers")
  );
}

TEST(ReadQuantizationConfig, CompressedTensors) {
  const std::string method = R"({"quant_method": "compressed-tensors", )";
  const QuantizationConfig blocks =
      config_of(method + R"("format": "float-quantized", "config_groups": {"group_0": {"weights":
                  {"strategy": "block", "block_structure": [128, 128]}}}})");
  EXPECT_EQ(blocks.method, QuantizationMethod::kCompressedTensors);
  EXPECT_EQ(blocks.block_columns, 128);
  const auto packed = [&](const std::string& weights) {
    return method + R"("format": "pack-quantized", "config_groups": {"group_0": {"weights": )" +
           weights + "}}}";
  };
  EXPECT_EQ(config_of(packed(R"({"num_bits": 8, "type": "int"})")).bits, 8);
  EXPECT_THAT(
      error_of(packed(R"({"num_bits": 7})")).message, HasSubstr("packed weights of 7 bits")
  );
  EXPECT_THAT(
      error_of(packed(R"({"num_bits": 4, "type": "float"})")).message, HasSubstr("type 'float'")
  );
  EXPECT_EQ(config_of(packed(R"({"block_structure": "128x64"})")).block_columns, 64);
  EXPECT_TRUE(config_of(packed(R"({"group_size": null})")).group_sizes.empty());
  EXPECT_TRUE(config_of(packed(R"({"group_size": -1})")).group_sizes.empty());
  EXPECT_EQ(error_of(packed(R"({"group_size": 0})")).where, "quantization_config.config_groups");
  EXPECT_EQ(
      config_of(method + R"("config_groups": {"a": {"weights": {"group_size": 128}},
          "b": {"weights": {}}, "c": {"weights": {"group_size": 32}},
          "d": {"weights": {"group_size": 128}}}})")
          .group_sizes,
      (std::vector<int64_t>{128, 32})
  );
  EXPECT_EQ(
      error_of(packed(R"({"block_structure": "128"})")).where, "quantization_config.config_groups"
  );
  EXPECT_EQ(
      error_of(method + R"("format": "nvfp4-pack-quantized"})").where, "quantization_config.format"
  );
  EXPECT_EQ(
      error_of(method + R"("sparsity_config": {"format": "sparse-24-bitmask"}})").where,
      "quantization_config.sparsity_config"
  );
  EXPECT_EQ(
      error_of(method + R"("transform_config": {"config_groups": {"R3": {}}}})").where,
      "quantization_config.transform_config"
  );
  config_of(method + R"("sparsity_config": {}, "transform_config": {"config_groups": {}}})");
}

}  // namespace
}  // namespace millrace
