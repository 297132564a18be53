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

// The tensors of a layer's router: one row for each expert, then that of a shared expert's gate.
std::vector<std::string> router_names(const MoeConfig& moe, size_t layer);

// Elements of all expected tensors: what a model card calls its parameters.
int64_t num_parameters(const ModelConfig& config);

// kNotFound: it is nullptr; kInvalidArgument or kUnsupported: of another shape, or of a type that
// cannot be read.
Result<void> check_tensor(const TensorInfo& expected, const TensorInfo* found);

// Whether `source` holds each expected tensor, of its shape and of a type that can be read, and
// nothing that would be left unused. Known to be harmless and passed over: rotary tables that older
// checkpoints carry, and an `lm_head.weight` that equals the embeddings it is tied to (compared
// here). The error names the tensor with both shapes.
Result<void> check_tensors(const ModelConfig& config, const WeightSource& source);

}  // namespace millrace
