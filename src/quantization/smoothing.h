// Scaling a model's inner activations so that 8 bits lose less of them and of the weights, without
// changing what the model computes (SmoothQuant, Xiao et al. 2022).
//
// Each input of a matrix is divided by s and its weights are multiplied by s. What divides is
// folded into whatever makes the input: a norm's weights, rows of v, rows of up. With s^2 the root
// of E x^2 / E w^2, the errors of rounding inputs and of rounding weights are both as small as such
// a scaling makes them (Cauchy-Schwarz).
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/weight_source.h"
#include "model/config.h"
#include "quantization/input_moments.h"
#include "tensor/dtype.h"

namespace millrace {

// By what the inputs are divided.
struct LayerSmoothing {
  std::vector<float> qkv;    // [hidden]
  std::vector<float> value;  // [kv_size]: a KV head's rows of v, and the inputs of attention_out of
                             // all query heads that share it
  std::vector<float> gate_up;  // [hidden]
  std::vector<float> down;     // [intermediate]
};
struct Smoothing {
  std::vector<LayerSmoothing> layers;
  std::vector<float> head;  // [hidden]
};

// `values`: [kv_size], one for each row of v; the result: one for each input of attention_out.
std::vector<float> spread_to_query_heads(
    const ModelConfig& config, const std::vector<float>& values
);

// REQUIRES: check_tensors(config, source), and moments of every matrix.
Smoothing choose_smoothing(
    const ModelConfig& config,
    const WeightSource& source,
    const InputMoments& moments,
    ThreadPool& pool
);

// The same model with its head apart: what smoothing does to the head must not reach the embedding.
ModelConfig untied(const ModelConfig& config);

// The tensors of untied(config) with the smoothing folded in; matrices are rounded to `dtype`
// before that, as the model that is quantized has them. Borrows `source`.
std::unique_ptr<WeightSource> smoothed_source(
    const ModelConfig& config, const WeightSource& source, const Smoothing& smoothing, DType dtype
);

}  // namespace millrace
