// How fast float32 weights become a matrix of each format: what loading a model does for each of
// its weights, on one core.
#include <benchmark/benchmark.h>

#include <array>
#include <cmath>
#include <string>

#include "kernels/quantized/weight_matrix.h"
#include "kernels/test_data.h"

namespace millrace {
namespace {

struct NamedFormat {
  std::string_view name;
  MatrixFormat format;
};
constexpr std::array kFormats = {
    NamedFormat{"float32", DType::kFloat32},
    NamedFormat{"float16", DType::kFloat16},
    NamedFormat{"bfloat16", DType::kBFloat16},
    NamedFormat{"int8", QuantizedFormat::kInt8},
    NamedFormat{"int4", QuantizedFormat::kInt4},
};

// Normally distributed, as weights nearly are (Box and Muller's).
std::vector<float> normal_floats(size_t size) {
  std::vector<float> values = random_floats(size, 9);
  const std::vector<float> angles = random_floats(size, 10);
  for (size_t i = 0; i < size; ++i) {
    const float radius = std::sqrt(-2.0F * std::log((values[i] + 1.0F) / 2.0F + 1e-7F));
    values[i] = 0.02F * radius * std::cos(3.14159265F * angles[i]);
  }
  return values;
}

// Arguments: format, inputs, instruction set. A panel, over and over: it stays in the caches, as
// what was just widened does.
void BM_PackPanel(benchmark::State& state) {
  const NamedFormat& format = kFormats[static_cast<size_t>(state.range(0))];
  const auto num_columns = static_cast<size_t>(state.range(1));
  const auto isa = static_cast<Isa>(state.range(2));
  const std::span<const Isa> isas = supported_isas();
  if (std::find(isas.begin(), isas.end(), isa) == isas.end()) {
    return state.SkipWithError("not on this processor");
  }
  const std::vector<float> rows = normal_floats(16 * num_columns);
  WeightMatrix matrix = *WeightMatrix::allocate(format.format, 16, num_columns);
  for (auto _ : state) {
    matrix.pack_panel(0, rows, isa);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * rows.size()));
  state.SetLabel(std::string(format.name) + ' ' + std::string(name_of(isa)));
}

void add_formats(benchmark::internal::Benchmark* bench) {
  for (int64_t format = 0; format < static_cast<int64_t>(kFormats.size()); ++format) {
    for (const int64_t num_columns : {896, 4864}) {
      for (const Isa isa : {Isa::kReference, Isa::kAvx2, Isa::kAvx512}) {
        bench->Args({format, num_columns, static_cast<int64_t>(isa)});
      }
    }
  }
}

BENCHMARK(BM_PackPanel)->ArgNames({"format", "inputs", "isa"})->Apply(add_formats);

}  // namespace
}  // namespace millrace
