// paged_attention of Qwen2-0.5B's shape (14 heads, 2 KV heads, head_dim 64), of Qwen2-7B's
// (28, 4, 128) and of Llama-3.1-8B's (32, 8, 128): decodes of several contexts, and prompts. Each
// pass takes the keys and values of another layer, so that they come from memory, not from the
// cache; BM_MachineRead is what "KV GB/s" of a decode can be at most.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "base/math.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/test_data.h"
#include "tensor/buffer.h"

namespace millrace {
namespace {

struct Shape {
  size_t num_heads;
  size_t num_kv_heads;
  size_t head_dim;
};
constexpr Shape kShapes[] = {{14, 2, 64}, {28, 4, 128}, {32, 8, 128}};
constexpr size_t kBlockSize = 16;
constexpr size_t kColdBytes = size_t{192} << 20;

// A batch of equal sequences whose last `num_queries` tokens attend to `context` tokens.
struct Batch {
  Batch(const Shape& shape, DType dtype, size_t num_sequences, size_t num_queries, size_t context)
      : width(shape.num_heads * shape.head_dim),
        blocks_each(div_ceil(context, kBlockSize)),
        q(random_floats(num_sequences * num_queries * width, 1)),
        out(q.size()) {
    cache = {
        .dtype = dtype,
        .num_blocks = blocks_each * num_sequences,
        .block_size = kBlockSize,
        .num_kv_heads = shape.num_kv_heads,
        .head_dim = shape.head_dim,
    };
    const size_t layer_bytes = 2 * cache.num_elements() * size_of(dtype);
    num_layers = div_ceil(kColdBytes, layer_bytes);
    kv = *Buffer::allocate(num_layers * layer_bytes);
    // Untouched memory is one shared page of zeros, and reads of it come from the cache.
    std::ranges::fill(kv.bytes(), std::byte{0x3C});
    for (size_t sequence = 0; sequence < num_sequences; ++sequence) {
      for (size_t i = context - num_queries; i < context; ++i) {
        positions.push_back(static_cast<int32_t>(i));
      }
      cu_seqlens.push_back(static_cast<int32_t>(positions.size()));
      for (size_t i = 0; i < blocks_each; ++i)
        tables.push_back(static_cast<int32_t>(tables.size()));
    }
  }

  KvView layer(size_t index) {
    KvView view = cache;
    const size_t plane_bytes = kv.num_bytes() / num_layers / 2;
    view.keys = kv.bytes().data() + 2 * index * plane_bytes;
    view.values = kv.bytes().data() + (2 * index + 1) * plane_bytes;
    return view;
  }

  // Two products of head_dim for each head and visible position.
  double num_flops() const {
    double positions_seen = 0.0;
    for (const int32_t position : positions) positions_seen += position + 1;
    return 4.0 * positions_seen * static_cast<double>(width);
  }

  size_t width;
  size_t blocks_each;
  std::vector<float> q;
  std::vector<float> out;
  KvView cache;
  size_t num_layers = 0;
  Buffer kv;  // [num_layers][keys, values]
  std::vector<int32_t> positions;
  std::vector<int32_t> cu_seqlens = {0};
  std::vector<int32_t> tables;
};

// Arguments: shape, KV dtype, sequences, query tokens of each, context of each, threads.
void BM_PagedAttention(benchmark::State& state) {
  const Shape& shape = kShapes[state.range(0)];
  const auto dtype = static_cast<DType>(state.range(1));
  const auto context = static_cast<size_t>(state.range(4));
  ThreadPool pool(static_cast<size_t>(state.range(5)));
  Batch batch(
      shape,
      dtype,
      static_cast<size_t>(state.range(2)),
      static_cast<size_t>(state.range(3)),
      context
  );
  std::vector<float> scratch(paged_attention_scratch_size({
      .num_threads = pool.num_threads(),
      .num_heads = shape.num_heads,
      .num_kv_heads = shape.num_kv_heads,
      .head_dim = shape.head_dim,
      .context_max = context,
  }));
  size_t layer = 0;
  for (auto _ : state) {
    paged_attention(
        {best_isa(), pool},
        {.q = rows_of(batch.q, batch.width),
         .num_heads = shape.num_heads,
         .cache = batch.layer(layer),
         .positions = batch.positions,
         .cu_seqlens = batch.cu_seqlens,
         .block_tables = batch.tables,
         .blocks_per_sequence_max = batch.blocks_each,
         .scratch = scratch,
         .out = rows_of(batch.out, batch.width)}
    );
    layer = (layer + 1) % batch.num_layers;
    benchmark::DoNotOptimize(batch.out.data());
  }
  const auto iterations = static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] =
      benchmark::Counter(1e-9 * batch.num_flops() * iterations, benchmark::Counter::kIsRate);
  state.counters["KV GB/s"] = benchmark::Counter(
      1e-9 * static_cast<double>(batch.kv.num_bytes() / batch.num_layers) * iterations,
      benchmark::Counter::kIsRate
  );
  state.SetLabel(std::string(name_of(dtype)));
}

void add_cases(benchmark::internal::Benchmark* bench) {
  for (const int64_t shape : {0, 1, 2}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const int64_t num_threads : {1, 2}) {
        const auto type = static_cast<int64_t>(dtype);
        bench->Args({shape, type, 1, 1, 1024, num_threads});
        bench->Args({shape, type, 1, 1, 8192, num_threads});
        bench->Args({shape, type, 8, 1, 1024, num_threads});
        bench->Args({shape, type, 1, 512, 512, num_threads});
        bench->Args({shape, type, 1, 512, 8192, num_threads});
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
