#include "base/check.h"
#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/code_tiles.h"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/operand_tiles.h"
#include "cuda/kernels/pack_codes.h"
#include "kernels/quantized/code_bits.h"
#include "kernels/quantized/linear_quantized_kernel.h"

namespace millrace::cuda {
namespace {

constexpr uint32_t kThreads = 256;

struct PackTask {
  PackCodesArgs args;
  PanelLayout from;
  int from_bits;  // of a code
  size_t num_groups;
  size_t panel_bytes;
  CodePanelLayout to;
};

// Where a row of a packed panel comes from: panel and row.
struct SourceRow {
  const unsigned char* panel;
  uint32_t row;

  __device__ SourceRow(const PackTask& task, uint32_t to_panel, uint32_t to_row) {
    const bool in_turn = task.args.epilogue == LinearEpilogue::kSiluMul;
    const uint32_t index = in_turn ? to_panel / 2 * 2 + to_row / 8 : to_panel;
    row = in_turn ? to_panel % 2 * 8 + to_row % 8 : to_row;
    panel = static_cast<const unsigned char*>(task.args.panels) + index * task.panel_bytes;
  }

  // Of an input of a group; of int6 as one of int8.
  __device__ uint32_t code(const PackTask& task, size_t group, uint32_t input) const {
    const unsigned char* const codes = panel + task.from.codes_offset(group);
    const int added = task.args.format == QuantizedFormat::kInt6 ? kInt8Zero - kInt6Zero : 0;
    return static_cast<uint32_t>(code_bits_at(codes, row, input, task.from_bits) + added);
  }
};

// 16 bytes of codes of a lane: the inputs of a chunk from `first_step` on.
__device__ Words4 lane_piece(
    const PackTask& task, uint32_t panel, uint32_t chunk, uint32_t first_step, uint32_t lane
) {
  const uint32_t num_bits = task.to.num_bits;
  Words4 piece = {};
  for (uint32_t i = 0; i < 128 / num_bits; ++i) {
    const uint32_t word = i % 8 / 2;  // of the lane's operand
    const uint32_t step = first_step + i / 8;
    const uint32_t input = step * kTileInputs + word / 2 * 8 + lane % 4 * 2 + i % 2;
    const SourceRow row(task, panel, lane / 4 + word % 2 * 8);
    const uint32_t bit = i * num_bits;
    piece.words[bit / 32] |= row.code(task, chunk, input) << bit % 32;
  }
  return piece;
}

// Grid: panels. At load only.
__global__ void __launch_bounds__(kThreads) pack_kernel(PackTask task) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const uint32_t panel = blockIdx.x;
  unsigned char* const to = static_cast<unsigned char*>(task.args.packed) +
                            (task.args.first_panel + panel) * task.to.num_bytes();
  const uint32_t num_pieces = task.to.num_bits / 4;
  const uint32_t num_chunks = task.to.num_pairs * kPairChunks;
  for (uint32_t i = threadIdx.x; i < num_chunks * num_pieces * kWarpThreads; i += kThreads) {
    const uint32_t lane = i % kWarpThreads;
    const uint32_t piece = i / kWarpThreads % num_pieces;
    const uint32_t chunk = i / kWarpThreads / num_pieces;
    const uint32_t first_step = piece * kChunkSteps / num_pieces;
    store_words(
        to + task.to.lane_codes(chunk, piece, lane),
        chunk < task.num_groups ? lane_piece(task, panel, chunk, first_step, lane) : Words4{}
    );
  }
  for (uint32_t i = threadIdx.x; i < num_chunks * kTileRows; i += kThreads) {
    const uint32_t chunk = i / kTileRows;
    const SourceRow row(task, panel, i % kTileRows);
    to[task.to.scale(chunk, i % kTileRows)] =
        chunk < task.num_groups ? row.panel[task.from.scales_offset(chunk) + row.row]
                                : static_cast<unsigned char>(0);
  }
  if (threadIdx.x < kTileRows) {
    const SourceRow row(task, panel, threadIdx.x);
    const size_t from = task.from.row_scales_offset(task.num_groups) + row.row * sizeof(float);
    store_word(
        to + task.to.row_scales_begin() + threadIdx.x * sizeof(float), load_word(row.panel + from)
    );
  }
}

}  // namespace

void pack_codes(StreamHandle stream, const PackCodesArgs& args) {
  if (args.num_panels == 0) return;
  CHECK(args.panels != nullptr && args.packed != nullptr, "pack_codes' memory");
  CHECK(is_aligned(args.panels) && is_aligned(args.packed), "16-byte memory");
  CHECK(args.num_inputs > 0, "a row has inputs");
  CHECK(
      args.epilogue != LinearEpilogue::kSiluMul ||
          (args.num_panels % 2 == 0 && args.first_panel % 2 == 0),
      "gate's panels with up's"
  );
  CHECK(!are_codes(args.format), "weights that were rounded here");
  const PanelLayout& from = own_layout(args.format);
  const size_t num_groups = num_chunks_of(args.num_inputs);
  const PackTask task = {
      .args = args,
      .from = from,
      .from_bits = own_bits(args.format),
      .num_groups = num_groups,
      .panel_bytes = from.row_scales_offset(num_groups) + kRowScaleBytes,
      .to = CodePanelLayout(num_device_bits(args.format), args.num_inputs)};
  launch(stream, {.grid = {grid_width(args.num_panels)}, .block = {kThreads}}, pack_kernel, task);
}

}  // namespace millrace::cuda
