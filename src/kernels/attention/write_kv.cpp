#include "kernels/attention/write_kv.h"

#include "base/check.h"
#include "kernels/attention/write_kv_kernel.h"
#include "kernels/dispatch.h"

namespace millrace {
namespace {

using TokenFunction = void (*)(const WriteKvTask&, size_t, size_t);

constexpr KernelVersions<TokenFunction> kVersions = {
    .float32 = {write_kv_reference<float>, write_kv_avx2<float>, write_kv_avx512<float>},
    .float16 = {write_kv_reference<Float16>, write_kv_avx2<Float16>, write_kv_avx512<Float16>},
    .bfloat16 = {write_kv_reference<BFloat16>, write_kv_avx2<BFloat16>, write_kv_avx512<BFloat16>},
};

void check_norm(std::span<const float> weight, size_t head_dim) {
  CHECK(weight.empty() || weight.size() == head_dim, "a head's norm has a weight a dimension");
}

void check_shapes(const WriteKvArgs& args) {
  const KvView& cache = args.cache;
  const size_t num_heads_of_all = args.num_heads + 2 * cache.num_kv_heads;
  CHECK(args.qkv.num_columns == num_heads_of_all * cache.head_dim, "q, k and v of every head");
  CHECK(args.positions.size() == args.qkv.num_rows, "one position a token");
  CHECK(args.slots.size() == args.qkv.num_rows, "one slot a token");
  CHECK(args.rope.head_dim() == cache.head_dim, "the rope table is for this head_dim");
  check_norm(args.q_norm, cache.head_dim);
  check_norm(args.k_norm, cache.head_dim);
  for (size_t token = 0; token < args.slots.size(); ++token) {
    // Negative ones become huge.
    CHECK(
        static_cast<size_t>(args.positions[token]) < args.rope.num_positions(), "a known position"
    );
    CHECK(
        static_cast<size_t>(args.slots[token]) < cache.num_blocks * cache.block_size,
        "a slot of the cache"
    );
  }
}

}  // namespace

void write_kv(const Executor& executor, const WriteKvArgs& args) {
  check_shapes(args);
  const WriteKvTask task = {
      .qkv = args.qkv.data,
      .qkv_stride = args.qkv.stride,
      .num_heads = args.num_heads,
      .num_kv_heads = args.cache.num_kv_heads,
      .head_dim = args.cache.head_dim,
      .q_norm = args.q_norm.empty() ? nullptr : args.q_norm.data(),
      .k_norm = args.k_norm.empty() ? nullptr : args.k_norm.data(),
      .norm_eps = args.norm_eps,
      .rope = args.rope.data(),
      .positions = args.positions.data(),
      .slots = args.slots.data(),
      .keys = args.cache.keys,
      .values = args.cache.values,
      .head_stride = args.cache.head_stride(),
      .block_size = args.cache.block_size,
  };
  const TokenFunction function = kVersions.find(executor.isa, args.cache.dtype);
  executor.pool.parallel_for(args.qkv.num_rows, [&](size_t begin, size_t end) {
    function(task, begin, end);
  });
}

}  // namespace millrace
