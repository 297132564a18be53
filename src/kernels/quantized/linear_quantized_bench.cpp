// linear_quantized on the shapes of Qwen2-0.5B: for few tokens the weights' bytes a second should
// come near ReadBandwidth (linear_bench.cpp) with as many threads. BM_EncodeRows and
// BM_RotateToTiles have what encoding takes of it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>

#include "kernels/quantized/encode_rows.h"
#include "kernels/quantized/linear_quantized.h"
#include "kernels/quantized/quantized_test_data.h"

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
    Layer{"long rows", 2048, 65536, LinearEpilogue::kStore},
};

// Enough copies of a matrix that they cannot stay in any cache.
constexpr size_t kColdBytes = size_t{256} << 20;

std::vector<QuantizedMatrix> cold_matrices(QuantizedFormat format, const Layer& layer) {
  const size_t factor = layer.epilogue == LinearEpilogue::kSiluMul ? 2 : 1;
  std::vector<QuantizedMatrix> matrices;
  size_t num_bytes = 0;
  const std::vector<float> rows = random_floats(16 * layer.num_inputs, 1);
  const QuantizedMatrix panel = quantized(format, rows, layer.num_inputs);
  while (num_bytes < kColdBytes) {
    matrices.push_back(
        *QuantizedMatrix::allocate(format, factor * layer.num_outputs, layer.num_inputs)
    );
    for (size_t i = 0; i < matrices.back().num_panels(); ++i) {
      std::ranges::copy(panel.panel(0), matrices.back().panel(i).begin());
    }
    num_bytes += matrices.back().num_bytes();
  }
  return matrices;
}

// Arguments: layer, place in all_quantizations(), tokens, threads.
void BM_LinearQuantized(benchmark::State& state) {
  const Layer& layer = kLayers[static_cast<size_t>(state.range(0))];
  const Quantization quantization = all_quantizations()[static_cast<size_t>(state.range(1))];
  const InputRounding rounding = quantization.rounding;
  const auto num_tokens = static_cast<size_t>(state.range(2));
  ThreadPool pool(static_cast<size_t>(state.range(3)));
  const Executor executor{best_isa(), pool};
  const std::vector<QuantizedMatrix> matrices = cold_matrices(quantization.format, layer);
  std::vector<float> x = random_floats(num_tokens * layer.num_inputs, 2);
  std::vector<float> out(num_tokens * layer.num_outputs);
  Buffer scratch = *Buffer::allocate(
      linear_quantized_scratch_bytes(rounding, pool.num_threads(), num_tokens, layer.num_inputs)
  );
  size_t next = 0;
  for (auto _ : state) {
    linear_quantized(
        executor,
        {.x = rows_of(x, layer.num_inputs),
         .weights = matrices[next],
         .bias = {},
         .out = rows_of(out, layer.num_outputs),
         .epilogue = layer.epilogue,
         .rounding = rounding,
         .scratch = scratch.bytes()}
    );
    next = (next + 1) % matrices.size();
  }
  const auto iterations = static_cast<double>(state.iterations());
  const double bytes = static_cast<double>(matrices[0].num_bytes()) * iterations;
  // Words take both terms of an input at once.
  const size_t num_terms =
      input_form(executor.isa, rounding) == InputForm::kWords ? 1 : num_terms_of(rounding);
  const double operations = 2.0 * static_cast<double>(num_tokens * layer.num_inputs * num_terms) *
                            static_cast<double>(matrices[0].num_rows()) * iterations;
  state.counters["GB/s"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GOP/s"] = benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsRate);
  state.SetLabel(std::string(layer.name) + ' ' + std::string(name_of(quantization.format)));
}

// Arguments: inputs, tokens, InputRounding.
void BM_EncodeRows(benchmark::State& state) {
  const auto num_inputs = static_cast<size_t>(state.range(0));
  const auto num_tokens = static_cast<size_t>(state.range(1));
  const auto rounding = static_cast<InputRounding>(state.range(2));
  ThreadPool pool(1);
  std::vector<float> x = random_floats(num_tokens * num_inputs, 2);
  const size_t row_bytes =
      EncodedRows::row_bytes(num_inputs, rounding, input_form(best_isa(), rounding));
  Buffer scratch = *Buffer::allocate(num_tokens * row_bytes);
  for (auto _ : state) {
    encode_rows({best_isa(), pool}, rows_of(x, num_inputs), rounding, scratch.bytes());
    benchmark::ClobberMemory();
  }
  const auto values =
      static_cast<double>(num_tokens * num_inputs) * static_cast<double>(state.iterations());
  state.counters["values/s"] = benchmark::Counter(values, benchmark::Counter::kIsRate);
}

// Tiles: what to_tiles() makes of rows. Arguments: inputs, tokens.
template <class Tiles, class ToTiles>
void make_tiles(benchmark::State& state, const ToTiles& to_tiles) {
  const auto num_inputs = static_cast<size_t>(state.range(0));
  const auto num_tokens = static_cast<size_t>(state.range(1));
  ThreadPool pool(1);
  std::vector<float> x = random_floats(num_tokens * num_inputs, 2);
  Buffer scratch = *Buffer::allocate(Tiles::num_bytes(num_tokens, num_inputs));
  for (auto _ : state) {
    to_tiles(Executor{best_isa(), pool}, rows_of(x, num_inputs), scratch.bytes(), nullptr);
    benchmark::ClobberMemory();
  }
  const auto values =
      static_cast<double>(num_tokens * num_inputs) * static_cast<double>(state.iterations());
  state.counters["values/s"] = benchmark::Counter(values, benchmark::Counter::kIsRate);
}
void BM_RotateToTiles(benchmark::State& state) {
  make_tiles<RotatedTiles>(state, rotate_to_tiles);
}
void BM_EncodeToTiles(benchmark::State& state) {
  make_tiles<ByteTiles>(state, encode_to_tiles);
}

void add_linear(benchmark::internal::Benchmark* bench) {
  for (int64_t layer = 0; layer < static_cast<int64_t>(kLayers.size()); ++layer) {
    for (int64_t quantization = 0; quantization < std::ssize(all_quantizations()); ++quantization) {
      for (const int64_t num_tokens : {1, 4, 8, 64, 512}) {
        for (const int64_t num_threads : {1, 2}) {
          if (num_tokens == 512 && layer >= 3) continue;  // nobody wants so many logits
          bench->Args({layer, quantization, num_tokens, num_threads});
        }
      }
    }
  }
}

BENCHMARK(BM_LinearQuantized)
    ->ArgNames({"layer", "quantization", "tokens", "threads"})
    ->Apply(add_linear)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_EncodeRows)
    ->ArgNames({"inputs", "tokens", "rounding"})
    ->ArgsProduct({{896, 4864}, {1, 64}, {0, 1, 2, 3}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_RotateToTiles)->ArgsProduct({{896, 4864}, {1, 64}})->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_EncodeToTiles)->ArgsProduct({{896, 4864}, {1, 64}})->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace millrace
