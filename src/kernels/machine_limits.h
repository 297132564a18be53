// What this machine can do at most: how fast its threads together read memory, and how many
// multiply-adds they start a second. An engine's speed beside these says how much is left to gain.
//
// The limits are those of the moment: on a shared machine they swing within seconds, so they are
// measured close to what they are compared with, and again each time. Nothing here computes
// anything that a result depends on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/isa.h"
#include "tensor/buffer.h"

namespace millrace {

// What the factors of a matrix product are when they are multiplied; sums are float32 or int32.
enum class DotOperands { kFloat32, kBFloat16, kInt16, kInt8 };

// Instructions that multiply and add, by their width.
enum class DotInstruction {
  kMulpsAddps,     // SSE, two instructions for one multiply-add: any x86-64
  kVfmaddYmm,      // AVX2 and FMA
  kVfmaddZmm,      // AVX-512
  kVdpbf16psZmm,   // AVX512_BF16: pairs of bfloat16
  kVpmaddwdYmm,    // AVX2, and an addition: pairs of 16-bit integers
  kVpmaddwdZmm,    // AVX-512, the same
  kVpmaddubswYmm,  // AVX2: pairs of products of bytes, of which words take four, then their pairs
  kVpmaddubswZmm,  // AVX-512, the same, of which words take two
  kVpdpbusdYmm,    // AVX_VNNI: groups of four 8-bit integers
  kVpdpbusdZmm,    // AVX512_VNNI
  kTdpbf16psTile,  // AMX_BF16
  kTdpbssdTile,    // AMX_INT8
};

// "vdpbf16ps zmm".
[[nodiscard]] std::string_view name_of(DotInstruction instruction);

// Those that this processor and its system can run; never empty.
[[nodiscard]] std::vector<DotInstruction> supported_dot_instructions();

// The one with the most multiply-adds a second for such operands, no wider than `isa` allows: the
// dot product of the operands' own type where the processor has it (of small enough bytes any has
// one, in several steps), a fused multiply-add of floats (to which other operands are widened)
// where not.
[[nodiscard]] DotInstruction fastest_dot_instruction(DotOperands operands, Isa isa);

// Borrows the threads; used by one thread at a time.
class MachineLimits {
 public:
  // `num_bytes_read`: what one pass over memory reads; none: more than the caches hold. Each thread
  // writes its share of it here, so that it lies near the thread that reads it.
  // kResourceExhausted when there is no such memory.
  static Result<MachineLimits> prepare(
      ThreadPool& pool, Isa isa, std::optional<size_t> num_bytes_read = {}
  );

  // 64 MiB a thread, at least 512 MiB: sixteen times what one core of a large server has of
  // last-level cache, and as many times what a small machine has in all.
  static constexpr size_t num_bytes_beyond_caches(size_t num_threads) {
    const size_t each = size_t{64} << 20;
    return num_threads < 8 ? 8 * each : num_threads * each;
  }

  // Bytes per second that all threads together read from memory in sequence: the best of three
  // passes.
  double measure_read_bytes_per_second();

  // Operations per second that all threads together do in registers, where nothing waits for
  // memory; a multiply-add is two operations. The best of three rounds of a few milliseconds.
  // REQUIRES: a supported instruction.
  double measure_operations_per_second(DotInstruction instruction);

  size_t num_bytes_read() const { return buffer_.num_bytes(); }

  // The sum of the buffer's 64-bit words (modulo 2^64) as one pass reads it: shows that every byte
  // was read. `word_sum_expected`: what was written.
  uint64_t read_once();
  uint64_t word_sum_expected() const;

  // What one round does, read off the sums that the instructions made: shows that it was done.
  uint64_t run_multiply_adds(DotInstruction instruction);

 private:
  MachineLimits(ThreadPool& pool, Isa isa, Buffer buffer);

  ThreadPool* pool_;
  Isa isa_;
  Buffer buffer_;
};

}  // namespace millrace
