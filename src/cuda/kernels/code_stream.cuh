// The codes that a warp of linear_quantized() multiplies, on their way from memory.
#pragma once

#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/code_weights.cuh"
#include "cuda/kernels/weight_stream.cuh"

namespace millrace::cuda {

// What a lane has of a pair of chunks: of each its codes, and the scales of rows g and g + 8,
// bytes.
template <class Codes>
struct CodePair {
  Words4 pieces[kPairChunks][Codes::kPieces];
  uint32_t scales;

  // Of a chunk: of row g, or of row g + 8.
  __device__ float scale(uint32_t chunk, uint32_t half) const {
    return static_cast<float>(scales >> (chunk * 16 + half * 8) & 0xFFU);
  }
};

// As WeightStream: the codes of a warp's part of its panels, pair by pair, kNumStages of them.
template <class Codes, uint32_t kNumStages>
class CodeStream {
 public:
  static constexpr uint32_t kPieces = kPairChunks * Codes::kPieces;
  static constexpr uint32_t kPairBytes = kPieces * kPieceBytes;
  // A lane's pieces, and behind them its scales.
  static constexpr uint32_t kStageBytes = kPairBytes + kWarpThreads * sizeof(uint32_t);

  // Asks for the first codes, which no kernel writes, so before any is waited for.
  __device__ CodeStream(const QuantizedTask& task, const WarpPlace& place, size_t offset_bytes)
      : task_(task),
        place_(place),
        begin_(task.part_begin(place.part)),
        num_pairs_(task.part_begin(place.part + 1) - begin_),
        panel_(place.first_panel),
        stages_(
            dynamic_shared<unsigned char>(
                offset_bytes, size_t{num_warps()} * kNumStages * kStageBytes
            ) +
            warp_index() * (kNumStages * kStageBytes)
        ) {
    begin_panel();
#pragma unroll 1
    for (uint32_t i = 0; i + 1 < kNumStages; ++i) ask();
  }

  // The part's chunks.
  __device__ uint32_t begin() const {
    return begin_ * kPairChunks;
  }
  __device__ uint32_t end() const {
    const uint32_t end = (begin_ + num_pairs_) * kPairChunks;
    return end < task_.product.num_chunks ? end : task_.product.num_chunks;
  }

  // The next pair; and asks for one more.
  __device__ CodePair<Codes> take() {
    wait_for_copies<kNumStages - 2>();
    CodePair<Codes> pair;
    const unsigned char* const from = stages_ + taken_;
#pragma unroll
    for (uint32_t i = 0; i < kPieces; ++i) {
      pair.pieces[i / Codes::kPieces][i % Codes::kPieces] =
          load_words(from + i * kPieceBytes + lane_index() * sizeof(Words4));
    }
    pair.scales = load_word(from + kPairBytes + lane_index() * sizeof(uint32_t));
    taken_ = next_stage(taken_);
    ask();
    return pair;
  }

 private:
  // For the pair after the last one asked for; nothing beyond the last panel.
  __device__ void ask() {
    if (panel_ < task_.product.num_panels) {
      unsigned char* const to = stages_ + asked_;
#pragma unroll
      for (uint32_t i = 0; i < kPieces; ++i) {
        copy_streaming(
            to + i * kPieceBytes + lane_index() * sizeof(Words4), codes_ + i * kPieceBytes
        );
      }
      copy_word(to + kPairBytes + lane_index() * sizeof(uint32_t), scales_);
      codes_ += kPairBytes;
      scales_ += kPairScaleBytes;
      if (--num_left_ == 0) {
        panel_ += place_.panel_stride;
        begin_panel();
      }
    }
    asked_ = next_stage(asked_);
    end_copies();
  }

  __device__ void begin_panel() {
    num_left_ = num_pairs_;
    const unsigned char* const panel = task_.panel(panel_);
    codes_ = panel + begin_ * kPairBytes + lane_index() * sizeof(Words4);
    scales_ = panel + task_.scales_begin + begin_ * kPairScaleBytes + lane_index() / 4 * 4;
  }
  __device__ static uint32_t next_stage(uint32_t stage) {
    return stage == (kNumStages - 1) * kStageBytes ? 0 : stage + kStageBytes;
  }

  const QuantizedTask& task_;
  const WarpPlace& place_;
  uint32_t begin_;      // pairs
  uint32_t num_pairs_;  // of the part
  uint32_t panel_;      // of the next pair to ask for
  uint32_t num_left_ = 0;
  const unsigned char* codes_ = nullptr;
  const unsigned char* scales_ = nullptr;
  unsigned char* stages_;
  uint32_t asked_ = 0;  // the stage of the next
  uint32_t taken_ = 0;
};

}  // namespace millrace::cuda
