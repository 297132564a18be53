// How fast weights come off a checkpoint: dequantizing each storage type, and making up dummies.
#include <benchmark/benchmark.h>

#include <vector>

#include "checkpoint/dequantize.h"
#include "checkpoint/dummy.h"

namespace millrace {
namespace {

// One row block of a larger model: it fits in the second-level cache, so that the code is measured.
constexpr size_t kElements = 32 * 1024;

void dequantize_one(benchmark::State& state, StorageType storage) {
  const BlockLayout layout = block_layout(storage);
  const std::vector<std::byte> stored(kElements / layout.block_elements * layout.block_bytes);
  std::vector<float> out(kElements);
  for (auto _ : state) {
    dequantize(storage, stored, out);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kElements));
}
BENCHMARK_CAPTURE(dequantize_one, f32, StorageType::kF32);
BENCHMARK_CAPTURE(dequantize_one, f16, StorageType::kF16);
BENCHMARK_CAPTURE(dequantize_one, bf16, StorageType::kBF16);
BENCHMARK_CAPTURE(dequantize_one, q8_0, StorageType::kQ8_0);
BENCHMARK_CAPTURE(dequantize_one, q4_0, StorageType::kQ4_0);
BENCHMARK_CAPTURE(dequantize_one, q4_1, StorageType::kQ4_1);
BENCHMARK_CAPTURE(dequantize_one, q5_0, StorageType::kQ5_0);
BENCHMARK_CAPTURE(dequantize_one, q5_1, StorageType::kQ5_1);
BENCHMARK_CAPTURE(dequantize_one, iq4_nl, StorageType::kIQ4_NL);
BENCHMARK_CAPTURE(dequantize_one, q2_k, StorageType::kQ2_K);
BENCHMARK_CAPTURE(dequantize_one, q3_k, StorageType::kQ3_K);
BENCHMARK_CAPTURE(dequantize_one, q4_k, StorageType::kQ4_K);
BENCHMARK_CAPTURE(dequantize_one, q5_k, StorageType::kQ5_K);
BENCHMARK_CAPTURE(dequantize_one, q6_k, StorageType::kQ6_K);
BENCHMARK_CAPTURE(dequantize_one, iq4_xs, StorageType::kIQ4_XS);

void read_dummy_rows(benchmark::State& state) {
  std::vector<TensorInfo> infos(1);
  infos[0] = {.name = "weight", .shape = {1 << 20, 1024}};
  const Result<std::unique_ptr<WeightSource>> source = make_dummy_weights(infos, 1);
  const TensorInfo& info = *(*source)->find("weight");
  std::vector<float> out(kElements);
  int64_t row = 0;
  for (auto _ : state) {
    (*source)->read_rows(info, row, 32, out);
    row = (row + 32) % (1 << 20);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kElements));
}
BENCHMARK(read_dummy_rows);

}  // namespace
}  // namespace millrace
