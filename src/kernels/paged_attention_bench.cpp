// paged_attention of Qwen2-0.5B's shape (14 heads, 2 KV heads, head_dim 64) and of Llama-3.1-8B's
// (32, 8, 128): decodes of several contexts and one prefill chunk.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "base/math.h"
#include "kernels/paged_attention.h"
#include "kernels/test_data.h"
#include "tensor/buffer.h"

namespace millrace {
namespace {

struct Shape {
  size_t num_heads;
  size_t num_kv_heads;
  size_t head_dim;
};
constexpr Shape kShapes[] = {{14, 2, 64}, {32, 8, 128}};
constexpr size_t kBlockSize = 16;

// Arguments: shape, KV dtype, sequences, query tokens of each, context of each, threads.
void BM_PagedAttention(benchmark::State& state) {
  const Shape& shape = kShapes[state.range(0)];
  const auto dtype = static_cast<DType>(state.range(1));
  const auto num_sequences = static_cast<size_t>(state.range(2));
  const auto num_queries = static_cast<size_t>(state.range(3));
  const auto context = static_cast<size_t>(state.range(4));
  ThreadPool pool(static_cast<size_t>(state.range(5)));

  const size_t blocks_each = div_ceil(context, kBlockSize);
  KvView cache = {
      .dtype = dtype,
      .num_blocks = blocks_each * num_sequences,
      .block_size = kBlockSize,
      .num_kv_heads = shape.num_kv_heads,
      .head_dim = shape.head_dim,
  };
  const size_t kv_bytes = cache.num_blocks * cache.block_stride() * size_of(dtype);
  Buffer keys = *Buffer::allocate(kv_bytes);
  Buffer values = *Buffer::allocate(kv_bytes);
  // Untouched memory is one shared page of zeros, and reads of it come from the cache.
  std::ranges::fill(keys.bytes(), std::byte{0x3C});
  std::ranges::fill(values.bytes(), std::byte{0x3C});
  cache.keys = keys.bytes().data();
  cache.values = values.bytes().data();

  const size_t width = shape.num_heads * shape.head_dim;
  std::vector<float> q = random_floats(num_sequences * num_queries * width, 1);
  std::vector<float> out(q.size());
  std::vector<int32_t> positions;
  std::vector<int32_t> cu_seqlens = {0};
  std::vector<int32_t> tables;
  for (size_t sequence = 0; sequence < num_sequences; ++sequence) {
    for (size_t i = context - num_queries; i < context; ++i) {
      positions.push_back(static_cast<int32_t>(i));
    }
    cu_seqlens.push_back(static_cast<int32_t>(positions.size()));
    for (size_t i = 0; i < blocks_each; ++i) tables.push_back(static_cast<int32_t>(tables.size()));
  }
  std::vector<float> scratch(paged_attention_scratch_size(
      pool.num_threads(), shape.num_heads / shape.num_kv_heads, context
  ));
  for (auto _ : state) {
    paged_attention(
        {best_isa(), pool},
        {.q = rows_of(q, width),
         .num_heads = shape.num_heads,
         .cache = cache,
         .positions = positions,
         .cu_seqlens = cu_seqlens,
         .block_tables = tables,
         .blocks_per_sequence_max = blocks_each,
         .scratch = scratch,
         .out = rows_of(out, width)}
    );
    benchmark::DoNotOptimize(out.data());
  }
  // Two products of head_dim for each head and visible position.
  double positions_seen = 0.0;
  for (const int32_t position : positions) positions_seen += position + 1;
  const auto iterations = static_cast<double>(state.iterations());
  const double flops = 4.0 * positions_seen * static_cast<double>(width) * iterations;
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsRate);
  state.counters["KV GB/s"] = benchmark::Counter(
      2e-9 * static_cast<double>(kv_bytes) * iterations, benchmark::Counter::kIsRate
  );
  state.SetLabel(std::string(name_of(dtype)));
}

void add_cases(benchmark::internal::Benchmark* bench) {
  for (const int64_t shape : {0, 1}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const int64_t num_threads : {1, 2}) {
        const auto type = static_cast<int64_t>(dtype);
        bench->Args({shape, type, 1, 1, 1024, num_threads});
        bench->Args({shape, type, 1, 1, 8192, num_threads});
        bench->Args({shape, type, 8, 1, 1024, num_threads});
        bench->Args({shape, type, 1, 512, 1024, num_threads});
      }
    }
  }
}

BENCHMARK(BM_PagedAttention)
    ->ArgNames({"shape", "dtype", "sequences", "queries", "context", "threads"})
    ->Apply(add_cases)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace millrace
