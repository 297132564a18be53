// The tensors that a model of a given configuration consists of, under Hugging Face's names: what a
// checkpoint must hold, what dummy weights make up, and what the memory plan counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/weight_source.h"
#include "model/config.h"

namespace millrace {

enum class TensorRole { kEmbedding, kAttention, kMlp, kExperts, kRouter, kNorm, kLmHead };

struct ExpectedTensor {
  TensorInfo info;
  TensorRole role = TensorRole::kMlp;
};

// In the order of the forward pass, layer by layer; without `lm_head.weight` where embeddings are
// tied. The second form leaves the roles out.
std::vector<ExpectedTensor> expected_tensors_with_roles(const ModelConfig& config);
std::vector<TensorInfo> expected_tensors(const ModelConfig& config);

// What keeps the codes of all matrices of the layers, but for routers. kNotFound or
// kInvalidArgument naming the first that is missing, or of which `source` has no codes of 4 bits
// (WeightSource::scale_inputs).
Result<QuantizedFormat> format_of_codes(const ModelConfig& config, const WeightSource& source);

// The tensors of a layer's router: one row for each expert, then that of a shared expert's gate.
std::vector<std::string> router_names(const MoeConfig& moe, size_t layer);

// Elements of all expected tensors: what a model card calls its parameters.
int64_t num_parameters(const ModelConfig& config);

// Whether `source` holds each expected tensor, of its shape and of a type that can be read, and
// nothing that would be left unused. Known to be harmless and passed over: rotary tables that older
// checkpoints carry, and an `lm_head.weight` that equals the embeddings it is tied to (compared
// here). The error names the tensor with both shapes.
Result<void> check_tensors(const ModelConfig& config, const WeightSource& source);

}  // namespace millrace
