// linear on the shapes of Qwen2-0.5B, beside what the memory can deliver: for few tokens the
// weights' bytes a second should come near ReadBandwidth with as many threads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>

#include "kernels/linear.h"
#include "kernels/test_data.h"
#include "tensor/buffer.h"

namespace millrace {
namespace {

struct Layer {
  const char* name;
  size_t num_inputs;
  size_t num_outputs;
  LinearEpilogue epilogue;
};

constexpr std::array kLayers = {
    Layer{"qkv", 896, 1152, LinearEpilogue::kStore},
    Layer{"gate_up", 896, 4864, LinearEpilogue::kSiluMul},
    Layer{"down", 4864, 896, LinearEpilogue::kAddToOut},
    Layer{"lm_head", 896, 151936, LinearEpilogue::kStore},
};

// Enough copies of a matrix that they cannot stay in any cache.
constexpr size_t kColdBytes = size_t{256} << 20;

std::vector<PackedMatrix> cold_matrices(DType dtype, const Layer& layer) {
  const size_t factor = layer.epilogue == LinearEpilogue::kSiluMul ? 2 : 1;
  std::vector<PackedMatrix> matrices;
  size_t num_bytes = 0;
  const std::vector<float> rows = random_floats(16 * layer.num_inputs, 1);
  while (num_bytes < kColdBytes) {
    matrices.push_back(*PackedMatrix::allocate(dtype, factor * layer.num_outputs, layer.num_inputs)
    );
    PackedMatrix& matrix = matrices.back();
    for (size_t panel = 0; panel < matrix.num_panels(); ++panel) matrix.pack_panel(panel, rows);
    num_bytes += matrix.num_bytes();
  }
  return matrices;
}

// Arguments: layer, dtype, tokens, threads.
void BM_Linear(benchmark::State& state) {
  const Layer& layer = kLayers[static_cast<size_t>(state.range(0))];
  const auto dtype = static_cast<DType>(state.range(1));
  const auto num_tokens = static_cast<size_t>(state.range(2));
  ThreadPool pool(static_cast<size_t>(state.range(3)));
  const std::vector<PackedMatrix> matrices = cold_matrices(dtype, layer);
  // As a model's activations, on large pages.
  Buffer x = *Buffer::allocate(num_tokens * layer.num_inputs * sizeof(float));
  std::ranges::copy(random_floats(num_tokens * layer.num_inputs, 2), x.as<float>().begin());
  Buffer out = *Buffer::allocate(num_tokens * layer.num_outputs * sizeof(float));
  Buffer scratch = *Buffer::allocate(
      linear_scratch_bytes(dtype, pool.num_threads(), num_tokens, layer.num_inputs)
  );
  size_t next = 0;
  for (auto _ : state) {
    linear(
        {best_isa(), pool},
        {.x = {x.as<float>().data(), num_tokens, layer.num_inputs, layer.num_inputs},
         .weights = matrices[next],
         .bias = {},
         .out = {out.as<float>().data(), num_tokens, layer.num_outputs, layer.num_outputs},
         .epilogue = layer.epilogue,
         .scratch = scratch.bytes()}
    );
    next = (next + 1) % matrices.size();
  }
  const auto iterations = static_cast<double>(state.iterations());
  const double bytes = static_cast<double>(matrices[0].num_bytes()) * iterations;
  const double flops = 2.0 * static_cast<double>(num_tokens * layer.num_inputs) *
                       static_cast<double>(matrices[0].num_rows()) * iterations;
  state.counters["GB/s"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsRate);
  state.SetLabel(std::string(layer.name) + ' ' + std::string(name_of(dtype)));
}

void add_linear(benchmark::internal::Benchmark* bench) {
  for (int64_t layer = 0; layer < static_cast<int64_t>(kLayers.size()); ++layer) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      for (const int64_t num_tokens : {1, 4, 8, 16, 64, 128, 256, 512}) {
        for (const int64_t num_threads : {1, 2}) {
          bench->Args({layer, static_cast<int64_t>(dtype), num_tokens, num_threads});
        }
      }
    }
  }
}

BENCHMARK(BM_Linear)
    ->ArgNames({"layer", "dtype", "tokens", "threads"})
    ->Apply(add_linear)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace millrace
