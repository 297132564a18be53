// Tensor parallelism: which part of every layer each of several processes has, so that they compute
// one model together (docs/decisions/0017). A part is a model of its own, smaller in heads, inner
// layer and output head, whose matrices are slices of the whole one's: what loads and runs a whole
// model loads and runs a part.
//
//   q, k, v, gate, up and their biases   rows: the rank's heads, its share of the inner layer
//   o, down                              columns, the same ones; their biases are rank 0's
//   output head                          rows, a matrix of its own also where it is tied
//   embedding, norms                     whole
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "checkpoint/tensor_index.h"
#include "checkpoint/weight_source.h"
#include "model/config.h"

namespace millrace {

struct ModelShard {
  int32_t rank = 0;        // 0 .. world_size - 1
  int32_t world_size = 2;  // processes
};

// The rank's part of a model. Heads are split evenly; KV heads fewer than ranks are had by several.
// Inner layer and vocabulary may have any size: the last parts end in zeros. Parts are whole panels
// of 16 rows and whole groups of 64 inputs, as quantized matrices have them.
// kInvalidArgument for heads that cannot be split, kUnsupported for experts and for weights that
// are stored quantized; `where` is config.json's key.
Result<ModelConfig> shard_config(const ModelConfig& config, const ModelShard& shard);

// The rank's slices of another source's tensors. Thread-safe if that is.
class ShardedWeights : public WeightSource {
 public:
  // `config`: of the whole model; `source` is borrowed. Refuses what shard_config() and
  // check_tensors() refuse.
  static Result<std::unique_ptr<ShardedWeights>> make(
      const ModelConfig& config, const ModelShard& shard, const WeightSource& source
  );

  std::span<const TensorInfo> tensors() const override { return index_.tensors(); }
  const TensorInfo* find(std::string_view name) const override { return index_.find(name); }
  void read_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
  ) const override;
  CodeForm code_form(const TensorInfo& tensor) const override;
  void read_codes(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, const StoredCodes& out
  ) const override;

 private:
  // Where a part begins in its tensor. What lies beyond the tensor is zero.
  struct Slice {
    const TensorInfo* whole;
    int64_t row = 0;
    int64_t column = 0;
  };
  struct Splitter;

  ShardedWeights(const WeightSource& source, TensorIndex index, std::vector<Slice> slices);

  const WeightSource& source_;
  TensorIndex index_;
  std::vector<Slice> slices_;  // of each tensor of index_
};

}  // namespace millrace
