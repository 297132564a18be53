#include "kernels/attention/paged_attention.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/math.h"
#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/dispatch.h"
#include "kernels/lanes.h"

namespace millrace {
namespace {

using ItemFunction = void (*)(const AttentionItem&);

constexpr KernelVersions<ItemFunction> kVersions = {
    .float32 = {attend_reference<float>, attend_avx2<float>, attend_avx512<float>},
    .float16 = {attend_reference<Float16>, attend_avx2<Float16>, attend_avx512<Float16>},
    .bfloat16 = {attend_reference<BFloat16>, attend_avx2<BFloat16>, attend_avx512<BFloat16>},
};

size_t scratch_size_per_thread(size_t num_heads_per_kv_head, size_t context_max) {
  return num_heads_per_kv_head * round_up(context_max, kLanes) +
         round_up(num_heads_per_kv_head, kLanes);
}

// The sequence that a token of the batch belongs to.
size_t sequence_of(std::span<const int32_t> cu_seqlens, size_t token) {
  const auto next =
      std::upper_bound(cu_seqlens.begin(), cu_seqlens.end(), static_cast<int32_t>(token));
  return static_cast<size_t>(next - cu_seqlens.begin()) - 1;
}

// `scratch`: one thread's share.
AttentionItem make_item(
    const PagedAttentionArgs& args, size_t token, size_t kv_head, std::span<float> scratch
) {
  const KvView& cache = args.cache;
  const size_t group = args.num_heads / cache.num_kv_heads;
  const auto context = static_cast<size_t>(args.positions[token]) + 1;
  const size_t sequence = sequence_of(args.cu_seqlens, token);
  const size_t head_begin = kv_head * cache.head_dim * cache.block_size * size_of(cache.dtype);
  const size_t scores_stride = round_up(context, kLanes);
  return {
      .q = args.q.row(token) + kv_head * group * cache.head_dim,
      .out = args.out.row(token) + kv_head * group * cache.head_dim,
      .num_heads = group,
      .head_dim = cache.head_dim,
      .context = context,
      .blocks = &args.block_tables[sequence * args.blocks_per_sequence_max],
      .keys = static_cast<const std::byte*>(cache.keys) + head_begin,
      .values = static_cast<const std::byte*>(cache.values) + head_begin,
      .block_stride = cache.block_stride(),
      .block_size = cache.block_size,
      .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(cache.head_dim))),
      .scores = scratch.data(),
      .scores_stride = scores_stride,
      .sums = scratch.data() + group * scores_stride,
  };
}

void check_blocks(const PagedAttentionArgs& args, size_t num_threads) {
  size_t context_max = 0;
  for (size_t sequence = 0; sequence + 1 < args.cu_seqlens.size(); ++sequence) {
    size_t context = 0;
    for (int32_t token = args.cu_seqlens[sequence]; token < args.cu_seqlens[sequence + 1];
         ++token) {
      const int32_t position = args.positions[static_cast<size_t>(token)];
      CHECK(position >= 0, "positions count from 0");
      context = std::max(context, static_cast<size_t>(position) + 1);
    }
    const size_t num_blocks = div_ceil(context, args.cache.block_size);
    CHECK(num_blocks <= args.blocks_per_sequence_max, "the block table covers the context");
    for (size_t i = 0; i < num_blocks; ++i) {
      const int32_t block = args.block_tables[sequence * args.blocks_per_sequence_max + i];
      CHECK(static_cast<size_t>(block) < args.cache.num_blocks, "a block of the cache");
    }
    context_max = std::max(context_max, context);
  }
  const size_t group = args.num_heads / args.cache.num_kv_heads;
  CHECK(
      args.scratch.size() >= paged_attention_scratch_size(num_threads, group, context_max),
      "scratch for the longest context"
  );
}

void check_shapes(const PagedAttentionArgs& args, size_t num_threads) {
  const KvView& cache = args.cache;
  CHECK(
      cache.block_size > 0 && cache.block_size % kLanes == 0, "blocks of a multiple of 16 tokens"
  );
  CHECK(
      cache.num_kv_heads > 0 && args.num_heads % cache.num_kv_heads == 0, "whole groups of heads"
  );
  CHECK(args.q.num_columns == args.num_heads * cache.head_dim, "q holds every head");
  CHECK(args.out.num_columns == args.q.num_columns, "out has the shape of q");
  CHECK(args.out.num_rows == args.q.num_rows, "out has the shape of q");
  CHECK(args.positions.size() == args.q.num_rows, "one position a token");
  CHECK(
      !args.cu_seqlens.empty() && args.cu_seqlens.front() == 0 &&
          static_cast<size_t>(args.cu_seqlens.back()) == args.q.num_rows,
      "the sequences cover the tokens"
  );
  CHECK(std::is_sorted(args.cu_seqlens.begin(), args.cu_seqlens.end()), "sequences in order");
  CHECK(
      args.block_tables.size() == (args.cu_seqlens.size() - 1) * args.blocks_per_sequence_max,
      "one block table a sequence"
  );
  check_blocks(args, num_threads);
}

}  // namespace

size_t paged_attention_scratch_size(
    size_t num_threads, size_t num_heads_per_kv_head, size_t context_max
) {
  return num_threads * scratch_size_per_thread(num_heads_per_kv_head, context_max);
}

void paged_attention(const Executor& executor, const PagedAttentionArgs& args) {
  check_shapes(args, executor.pool.num_threads());
  const ItemFunction function = kVersions.find(executor.isa, args.cache.dtype);
  const size_t num_items = args.q.num_rows * args.cache.num_kv_heads;
  const size_t num_threads = executor.pool.num_threads();
  const size_t scratch_size = args.scratch.size() / num_threads;
  // In turn rather than in parts: later tokens of a prompt have longer contexts.
  executor.pool.parallel_for(num_threads, [&](size_t begin, size_t end) {
    for (size_t thread = begin; thread < end; ++thread) {
      const std::span<float> scratch = args.scratch.subspan(thread * scratch_size, scratch_size);
      for (size_t item = thread; item < num_items; item += num_threads) {
        const size_t token = item / args.cache.num_kv_heads;
        const size_t kv_head = item % args.cache.num_kv_heads;
        function(make_item(args, token, kv_head, scratch));
      }
    }
  });
}

}  // namespace millrace
