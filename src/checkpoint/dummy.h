// Weights from a seed instead of a file: for benchmarks of models that are too large to fetch, and
// for tests. Every value is a pure function of (seed, tensor name, index), so that any rows can be
// read in any order by any thread and two runs have the same model.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "checkpoint/weight_source.h"

namespace millrace {

// Values are such that activations neither vanish nor explode:
//   vectors "...norm.weight"  uniform in 1 +- 0.1
//   other vectors (biases)    uniform, standard deviation 0.02
//   matrices                  uniform, standard deviation 1 / sqrt(length of a row)
// Matrices but the embedding and the head are stored in 4 bits, too, as the nearest codes.
// kInvalidArgument when a name stands twice. The storage of `tensors` is ignored: it is float32.
Result<std::unique_ptr<WeightSource>> make_dummy_weights(
    std::vector<TensorInfo> tensors, uint64_t seed
);

}  // namespace millrace
