#include "kernels/attention/paged_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "base/math.h"
#include "kernels/attention/attention_tiles.h"
#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/denormals.h"
#include "kernels/dispatch.h"
#include "kernels/lanes.h"

namespace millrace {
namespace {

using AttendFunction = void (*)(const AttentionTile&, size_t, size_t, float*);
using MergeFunction = void (*)(const AttentionTile&, size_t, const float*, float*);
using FinishFunction = void (*)(const AttentionTile&, const float*);

constexpr KernelVersions<AttendFunction> kAttend = {
    .float32 = {attend_reference<float>, attend_avx2<float>, attend_avx512<float>},
    .float16 = {attend_reference<Float16>, attend_avx2<Float16>, attend_avx512<Float16>},
    .bfloat16 =
        {.reference = attend_reference<BFloat16>,
         .avx2 = attend_avx2<BFloat16>,
         .avx512 = attend_avx512<BFloat16>,
         .avx512_dot = attend_avx512_dot,
         .amx = attend_amx,
         .amx_reference = attend_amx_reference},
};
constexpr IsaVersions<MergeFunction> kMerge = {
    merge_split_reference, merge_split_avx2, merge_split_avx512};
constexpr IsaVersions<FinishFunction> kFinish = {
    finish_tile_reference, finish_tile_avx2, finish_tile_avx512};

size_t state_size(size_t num_rows, size_t head_dim) {
  return num_rows * (2 + head_dim);
}

// One thread's share of the scratch, in floats.
struct ScratchLayout {
  size_t queries_size;  // a tile's
  size_t state_size;    // of a tile
  size_t kept_size;     // results of splits of a tile that an earlier thread begins
  size_t num_kept_rows;

  size_t total() const { return round_up(queries_size + state_size + kept_size, kLanes); }
};

ScratchLayout scratch_layout(size_t num_heads_per_kv_head, size_t head_dim, size_t context_max) {
  const size_t num_rows =
      AttentionTiles::tokens_per_tile(num_heads_per_kv_head) * num_heads_per_kv_head;
  const size_t num_splits = div_ceil(context_max, kSplitPositions);
  const size_t num_kept_rows = num_heads_per_kv_head * (num_splits > 0 ? num_splits - 1 : 0);
  return {
      .queries_size = num_rows * query_scratch_size(head_dim),
      .state_size = state_size(num_rows, head_dim),
      .kept_size = state_size(num_kept_rows, head_dim),
      .num_kept_rows = num_kept_rows,
  };
}

// The longest context of the batch.
size_t check_blocks(const PagedAttentionArgs& args) {
  size_t context_max = 0;
  for (size_t sequence = 0; sequence + 1 < args.cu_seqlens.size(); ++sequence) {
    const auto begin = static_cast<size_t>(args.cu_seqlens[sequence]);
    const auto end = static_cast<size_t>(args.cu_seqlens[sequence + 1]);
    if (begin == end) continue;
    CHECK(args.positions[begin] >= 0, "positions count from 0");
    for (size_t token = begin + 1; token < end; ++token) {
      CHECK(args.positions[token] == args.positions[token - 1] + 1, "a sequence's tokens in a row");
    }
    const size_t context = static_cast<size_t>(args.positions[end - 1]) + 1;
    const size_t num_blocks = div_ceil(context, args.cache.block_size);
    CHECK(num_blocks <= args.blocks_per_sequence_max, "the block table covers the context");
    for (size_t i = 0; i < num_blocks; ++i) {
      const int32_t block = args.block_tables[sequence * args.blocks_per_sequence_max + i];
      CHECK(static_cast<size_t>(block) < args.cache.num_blocks, "a block of the cache");
    }
    context_max = std::max(context_max, context);
  }
  return context_max;
}

void check_shapes(const PagedAttentionArgs& args) {
  const KvView& cache = args.cache;
  CHECK(
      cache.block_size > 0 && cache.block_size % kLanes == 0, "blocks of a multiple of 16 tokens"
  );
  CHECK(cache.head_dim % 2 == 0 && cache.head_dim <= kHeadDimMax, "an even head_dim up to 256");
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
}

// One call: what its threads share.
class Attention {
 public:
  Attention(const Executor& executor, const PagedAttentionArgs& args, const ScratchLayout& layout)
      : executor_(executor),
        args_(args),
        layout_(layout),
        tiles_({
            .positions = args.positions,
            .cu_seqlens = args.cu_seqlens,
            .num_kv_heads = args.cache.num_kv_heads,
            .num_heads_per_kv_head = args.num_heads / args.cache.num_kv_heads,
            .num_threads = executor.pool.num_threads(),
            .num_kept_rows_max = layout.num_kept_rows,
        }) {}

  // What a thread computes. A tile that it ends, but did not begin, stays in parts.
  void attend(size_t thread) {
    const DenormalsAreZero scope;
    std::optional<Part> part;
    tiles_.for_each_part(thread, [&](const TileOfBatch& at, size_t split_begin, size_t split_end) {
      const Part next = {make_tile(at, thread), split_begin, split_end, split_end == at.num_splits};
      if (part) {
        part->tile.next = &next.tile;
        part->tile.next_split = split_begin;
        attend(thread, *part);
      }
      part = next;
    });
    if (part) attend(thread, *part);
  }

  bool is_any_cut() const { return is_any_cut_.load(std::memory_order_relaxed); }

  // The tile that a thread began and did not end: the last one that it had, whose state is still
  // where it was.
  void merge(size_t thread) {
    const DenormalsAreZero scope;
    tiles_.for_each_part(thread, [&](const TileOfBatch& at, size_t split_begin, size_t split_end) {
      if (split_begin > 0 || split_end == at.num_splits) return;
      const AttentionTile tile = make_tile(at, thread);
      for (size_t next = thread + 1; split_end < at.num_splits; ++next) {
        const float* part = kept(next);
        for (const size_t end = tiles_.first_split(at, next + 1); split_end < end; ++split_end) {
          kMerge.find(executor_.isa)(tile, split_end, part, state(thread));
          part += state_size(at.num_rows, args_.cache.head_dim);
        }
      }
      kFinish.find(executor_.isa)(tile, state(thread));
    });
  }

 private:
  struct Part {
    AttentionTile tile;
    size_t split_begin;
    size_t split_end;
    bool is_last;  // of the tile
  };

  void attend(size_t thread, const Part& part) {
    const AttendFunction attend_tile = kAttend.find(executor_.isa, args_.cache.dtype);
    if (part.split_begin > 0) {
      return attend_tile(part.tile, part.split_begin, part.split_end, kept(thread));
    }
    attend_tile(part.tile, 0, part.split_end, state(thread));
    if (part.is_last) {
      kFinish.find(executor_.isa)(part.tile, state(thread));
    } else {
      is_any_cut_.store(true, std::memory_order_relaxed);
    }
  }

  float* scratch(size_t thread) const { return args_.scratch.data() + thread * layout_.total(); }
  float* state(size_t thread) const { return scratch(thread) + layout_.queries_size; }
  float* kept(size_t thread) const { return state(thread) + layout_.state_size; }

  AttentionTile make_tile(const TileOfBatch& at, size_t thread) const {
    const KvView& cache = args_.cache;
    const size_t group = args_.num_heads / cache.num_kv_heads;
    const size_t head_begin = at.kv_head * cache.head_stride() * size_of(cache.dtype);
    const size_t column = at.kv_head * group * cache.head_dim;
    return {
        .q = args_.q.row(at.token_begin) + column,
        .q_stride = args_.q.stride,
        .out = args_.out.row(at.token_begin) + column,
        .out_stride = args_.out.stride,
        .num_tokens = at.num_tokens,
        .num_heads = group,
        .head_dim = cache.head_dim,
        .first_position = static_cast<size_t>(args_.positions[at.token_begin]),
        .blocks = &args_.block_tables[at.sequence * args_.blocks_per_sequence_max],
        .keys = static_cast<const std::byte*>(cache.keys) + head_begin,
        .values = static_cast<const std::byte*>(cache.values) + head_begin,
        .block_stride = cache.block_stride(),
        .block_size = cache.block_size,
        .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(cache.head_dim))),
        .is_hinted_soon = executor_.hint_bytes > 0,
        .next = nullptr,
        .next_split = 0,
        .queries = scratch(thread),
    };
  }

  const Executor& executor_;
  const PagedAttentionArgs& args_;
  ScratchLayout layout_;
  AttentionTiles tiles_;
  std::atomic<bool> is_any_cut_ = false;
};

}  // namespace

size_t paged_attention_scratch_size(const PagedAttentionLimits& limits) {
  const size_t group = limits.num_heads / limits.num_kv_heads;
  return limits.num_threads * scratch_layout(group, limits.head_dim, limits.context_max).total();
}

void paged_attention(const Executor& executor, const PagedAttentionArgs& args) {
  check_shapes(args);
  const size_t context_max = check_blocks(args);
  const size_t num_threads = executor.pool.num_threads();
  const size_t group = args.num_heads / args.cache.num_kv_heads;
  const ScratchLayout layout = scratch_layout(group, args.cache.head_dim, context_max);
  CHECK(args.scratch.size() >= num_threads * layout.total(), "scratch for the longest context");

  Attention attention(executor, args, layout);
  executor.pool.parallel_for(num_threads, [&](size_t begin, size_t end) {
    for (size_t thread = begin; thread < end; ++thread) attention.attend(thread);
  });
  if (!attention.is_any_cut()) return;
  executor.pool.parallel_for(num_threads, [&](size_t begin, size_t end) {
    for (size_t thread = begin; thread < end; ++thread) attention.merge(thread);
  });
}

}  // namespace millrace
