// What rounding does to each matrix product of a model: the relative error of its outputs, on the
// inputs that the model in bfloat16 gives the matrix.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/quantized/quantization.h"
#include "model/config.h"
#include "model/decoder.h"
#include "model/weights.h"

namespace millrace {

// What smoothing did to a model, which its rounded weights must be given to say what they say
// (quantization/smoothing.h): x -> x * factor for the inputs, y -> y / factor for the outputs.
// Empty: all 1.
struct ProductScaling {
  std::vector<float> inputs;   // [num_inputs]
  std::vector<float> outputs;  // [num_rows], packed rows
};

// The root mean square, over the tokens, of ||product - exact|| / ||exact||, where `exact` is the
// product of bfloat16 weights and unrounded inputs, summed in float32.
class ProductErrors : public InputObserver {
 public:
  // Weights are borrowed. `exact`: the bfloat16 model's weights, held in float32.
  ProductErrors(const ModelConfig& config, const ModelWeights& exact, ThreadPool& pool)
      : config_(config), exact_(exact), pool_(pool) {}

  // `weights`: of the same model, in that quantization, rounded while loading or calibrated.
  void add(
      std::string name,
      const ModelWeights& weights,
      const std::optional<Quantization>& quantization = {}
  );

  void observe(const MatrixPlace& place, ConstRows x) override;

  size_t num_variants() const { return variants_.size(); }
  const std::string& name(size_t variant) const { return variants_[variant].name; }
  // REQUIRES: observed.
  double error(size_t variant, const MatrixPlace& place) const;
  size_t num_layers(MatrixKind kind) const;

 private:
  using Place = std::pair<MatrixKind, size_t>;
  struct Sum {
    double squares = 0.0;  // of the tokens' relative errors
    size_t num_tokens = 0;
  };
  struct Variant {
    std::string name;
    const ModelWeights& weights;
    std::optional<Quantization> quantization = {};
    std::map<Place, ProductScaling> scalings;
    std::map<Place, Sum> sums;
  };
  std::vector<float> product(const WeightMatrix& weights, InputRounding rounding, ConstRows x);

  const ModelConfig& config_;
  const ModelWeights& exact_;
  ThreadPool& pool_;
  std::vector<Variant> variants_;
};

// The same weights in float32, without a bit changed.
ModelWeights in_float32(const ModelWeights& weights);

}  // namespace millrace
