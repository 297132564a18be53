// Causal attention of a ragged batch over a paged KV cache on a device: prefill chunks and decodes
// together. Query heads share a KV head in groups.
//
// A row is one query head of one token. The rows of a sequence that share a KV head are dealt in
// tiles of 16, whatever tokens they belong to: the rows of the tensor cores' products. The context
// is cut into splits of 256 positions at fixed absolute positions. For each row, in each split:
//
//   scores   q.k by multiply_fragments() over head_dim in steps of 32 (linear.h), in float32; one
//            beyond the largest float counts as that
//   m, l     their maximum; the sum of the exponentials e of the differences to it, rounded to
//            bfloat16: 32 lanes take positions i, i + 32, ... each, and are added in halves
//   o        the values weighted by those, by multiply_fragments(): four sums of 64 positions each
//            in ascending order, added in ascending order
//
// and the splits are merged in ascending order: with M' = max(M, m), L = l * exp(m - M') +
// L * exp(M - M'), and O likewise, the first product fused. The result is O / L, and 0 where no
// score is above -infinity, as in kernels/attention/paged_attention.h. So it depends on q, K, V and
// the position only: never on the chunking, the neighbours, the blocks' places, or on who merges.
// (Where a value is infinite, a row's neighbours in its tile may see it before their time.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/kernels/kv_blocks.h"
#include "cuda/kernels/write_kv.h"
#include "cuda/stream.h"

namespace millrace::cuda {

constexpr size_t kSplitPositions = 256;
constexpr size_t kAttentionTileRows = 16;
constexpr size_t kWideAttentionRows = 128;  // of a tile of paged_attention_wide()

// Consecutive rows of one sequence: row r of a sequence is head r % group of its token r / group.
struct AttentionTile {
  int32_t sequence = 0;
  int32_t first_row = 0;
  int32_t num_rows = 0;  // none: a tile that only fills a graph's grid
  friend bool operator==(const AttentionTile&, const AttentionTile&) = default;
};

// All rows of a batch, up to `rows_of_tile` each. `cu_seqlens`: [num_sequences + 1]; `group`: query
// heads of a KV head. The same for every KV head.
size_t num_attention_tiles(
    std::span<const int32_t> cu_seqlens, size_t group, size_t rows_of_tile = kAttentionTileRows
);
std::vector<AttentionTile> attention_tiles(
    std::span<const int32_t> cu_seqlens, size_t group, size_t rows_of_tile = kAttentionTileRows
);
// The same for paged_attention_wide(): of kWideAttentionRows each, those that see most come first.
// `context_lens`: of the first sequences; the others have no tokens.
std::vector<AttentionTile> wide_attention_tiles(
    std::span<const int32_t> cu_seqlens, std::span<const int32_t> context_lens, size_t group
);

struct PagedAttentionArgs {
  // [num_tokens, num_heads * head_dim], device, 16-byte aligned: see write_kv.h
  const uint16_t* q = nullptr;
  size_t num_tokens = 0;
  size_t num_heads = 0;
  KvBlocks cache;
  const int32_t* positions = nullptr;     // [num_tokens], device; of a sequence: consecutive
  const int32_t* cu_seqlens = nullptr;    // [num_sequences + 1], device
  const int32_t* block_tables = nullptr;  // [num_sequences, blocks_per_sequence_max], device
  size_t blocks_per_sequence_max = 0;
  const AttentionTile* tiles = nullptr;  // [num_tiles], device: attention_tiles()
  size_t num_tiles = 0;
  // [num_tokens, num_heads * head_dim], device, bfloat16, 16-byte aligned: operand_tiles.h
  uint16_t* out = nullptr;
};

// Aborts where `args` are not what both ways take.
void check_attention_args(const PagedAttentionArgs& args);

// A warp for each tile and KV head, which walks over the splits: for many tiles. No tiles: nothing
// happens.
void paged_attention(StreamHandle stream, const PagedAttentionArgs& args);

// What each split of each tile leaves for the merge.
struct AttentionPartials {
  size_t num_splits_max = 0;  // of the longest context, rounded up: div_ceil(tokens, 256)
  float* memory = nullptr;    // attention_partials_size(), device, 16-byte aligned
  // [num_tiles, num_kv_heads], device: blocks that are done with their splits. Zeros before a
  // launch and after it.
  uint32_t* counters = nullptr;
  // About so many are launched at most, two for each of 132 multiprocessors, and splits beyond are
  // walked: a graph is launched for the longest context that there may be, and blocks that find
  // nothing take time too. Not measured; with up to 8192, a step of Qwen2-0.5B took 0.2 ms longer
  // where contexts could be of 131,072 tokens than in `bench engine`, presumably for that.
  size_t num_blocks_wanted = 264;
};

// Floats.
size_t attention_partials_size(
    size_t num_tiles, size_t num_splits_max, size_t num_kv_heads, size_t head_dim
);

// The same result, to the bit, by a block for each tile, KV head and split, or some splits, of
// which the last that is done merges what all have left: for few tiles.
void paged_attention_in_splits(
    StreamHandle stream, const PagedAttentionArgs& args, const AttentionPartials& partials
);

// write_kv() and paged_attention_in_splits() in one kernel, for a decode: a token i for each
// sequence i, or none behind the last. Blocks rotate their own queries; the one that attends to a
// token's own position writes its key and value first. The same result and the same rows of the
// cache, to the bit; but a token of no tile writes nothing.
// `fresh`: of the same tokens, heads and cache; its q, and that of `args`, are not used.
// REQUIRES: a slot is where the block table says that the token's position is; tiles, positions,
// slots and block tables were copied to the device, not written by a kernel (launch_shape.h).
void decode_attention(
    StreamHandle stream,
    const PagedAttentionArgs& args,
    const AttentionPartials& partials,
    const WriteKvArgs& fresh
);

}  // namespace millrace::cuda
