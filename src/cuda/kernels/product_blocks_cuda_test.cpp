#include <gtest/gtest.h>

#include <utility>

#include "cuda/kernels/product_blocks.h"

namespace millrace::cuda {
namespace {

TEST(ProductBlocks, SplitInputsByTheShapeAlone) {
  EXPECT_EQ(num_k_parts(56, 14), 8U);    // a panel at most for each of 132 multiprocessors
  EXPECT_EQ(num_k_parts(224, 56), 4U);   // two
  EXPECT_EQ(num_k_parts(288, 56), 2U);   // three
  EXPECT_EQ(num_k_parts(608, 14), 2U);   // five
  EXPECT_EQ(num_k_parts(2368, 56), 1U);  // eighteen
  EXPECT_EQ(num_k_parts(9496, 14), 1U);
  EXPECT_EQ(num_k_parts(1, 2), 2U);  // two chunks
  EXPECT_EQ(num_k_parts(1, 1), 1U);
}

TEST(ProductBlocks, HaveAWarpForEachPartOfEachPanel) {
  EXPECT_EQ(num_block_warps(56, 8), 8U);
  EXPECT_EQ(num_block_warps(133, 4), 8U);
  EXPECT_EQ(num_block_warps(608, 2), 10U);
  EXPECT_EQ(num_block_warps(1056, 1), 8U);
}

TEST(ProductBlocks, LeaveFewWarpsIdleInTheLastRound) {
  EXPECT_EQ(num_block_warps(2368, 1), 9U);   // eighteen panels: two rounds
  EXPECT_EQ(num_block_warps(9496, 1), 8U);   // 72: nine rounds
  EXPECT_EQ(num_block_warps(2640, 1), 10U);  // twenty: two rounds, of eight three
}

TEST(CodeShare, GivesTheProcessorsOfAMultiprocessorAsMuchEach) {
  const auto share = [](size_t num_panels, uint32_t num_pairs, LinearEpilogue epilogue) {
    const PanelShare found = code_share(num_panels, num_pairs, epilogue);
    return std::pair(found.num_parts, found.num_warps);
  };
  using enum LinearEpilogue;
  EXPECT_EQ(share(288, 28, kStore), std::pair(4U, 12U));     // three panels
  EXPECT_EQ(share(2368, 28, kSiluMul), std::pair(2U, 12U));  // eighteen: three rounds of six
  EXPECT_EQ(share(9504, 28, kStore), std::pair(1U, 12U));    // 72: six rounds
  EXPECT_EQ(share(224, 28, kAddToOut), std::pair(4U, 8U));   // two
  EXPECT_EQ(share(56, 38, kAddToOut), std::pair(8U, 8U));    // one at most
  EXPECT_EQ(share(72, 7, kStore), std::pair(4U, 4U));        // no more parts than pairs
  EXPECT_EQ(share(1, 1, kStore), std::pair(1U, 1U));
}

// Rows and inputs of a decoder's products.
struct Decoder {
  const char* name;
  size_t hidden;
  size_t qkv_rows;
  size_t attention_inputs;
  size_t intermediate;
};
constexpr Decoder kDecoders[] = {
    {"Qwen2-0.5B", 896, 1152, 896, 4864},
    {"Qwen2-7B", 3584, 4608, 3584, 18944},
    {"Llama-3.1-8B", 4096, 6144, 4096, 14336},
    {"Qwen3-32B", 5120, 10240, 8192, 25600},
    {"Qwen2-72B", 8192, 10240, 8192, 29568}};

LaunchShape decode_shape(
    size_t num_rows, size_t num_inputs, LinearEpilogue epilogue, size_t num_norm_bytes
) {
  const size_t num_panels = num_linear_panels(num_rows, epilogue);
  const uint32_t num_parts = num_k_parts(num_panels, num_chunks_of(num_inputs));
  const uint32_t num_warps = num_block_warps(num_panels, num_parts);
  return product_shape(
      {.num_tokens = 1,
       .num_token_tiles = 1,
       .num_panels = num_panels,
       .num_warps = num_warps,
       .num_warp_bytes = warp_stage_bytes(num_warps),
       .num_other_bytes = num_norm_bytes,
       .epilogue = epilogue}
  );
}

// What a multiprocessor has: CUDA C++ Programming Guide, compute capability 9.0.
constexpr size_t kSharedBytes = size_t{228} * 1024;
constexpr size_t kReservedBytes = 1024;  // of each block
constexpr uint32_t kThreadsOfRegisters = 65536 / 96;

TEST(ProductBlocks, OfALayerAreTwoSizesOfWhichAMultiprocessorHasRoomForOneEach) {
  for (const Decoder& decoder : kDecoders) {
    SCOPED_TRACE(decoder.name);
    const size_t norm_bytes = 256 + decoder.hidden * 2;
    const LaunchShape larger[] = {
        decode_shape(decoder.qkv_rows, decoder.hidden, LinearEpilogue::kStore, norm_bytes),
        decode_shape(
            2 * decoder.intermediate, decoder.hidden, LinearEpilogue::kSiluMul, norm_bytes
        ),
        decode_shape(152064, decoder.hidden, LinearEpilogue::kStore, norm_bytes)};
    const LaunchShape smaller[] = {
        decode_shape(decoder.hidden, decoder.attention_inputs, LinearEpilogue::kAddToOut, 0),
        decode_shape(decoder.hidden, decoder.intermediate, LinearEpilogue::kAddToOut, 0)};
    for (const LaunchShape& a : larger) {
      EXPECT_GT(2 * (a.num_shared_bytes + kReservedBytes), kSharedBytes);
      EXPECT_LE(a.grid.y, kMultiprocessors);
      for (const LaunchShape& b : smaller) {
        EXPECT_LE(a.num_shared_bytes + b.num_shared_bytes + 2 * kReservedBytes, kSharedBytes);
        EXPECT_LE(a.block.x + b.block.x, kThreadsOfRegisters);
        EXPECT_LE(b.grid.y, kMultiprocessors);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::cuda
