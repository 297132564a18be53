// What machine_limits.cpp asks of each instruction set. Plain data only: this header is compiled
// for instructions that the machine may lack (lanes.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace {

// Bytes that the readers take at once: whole cache lines, enough of them for wide registers.
constexpr size_t kReadBlock = 512;

// The sum of the 64-bit words, modulo 2^64. `num_bytes` is a multiple of kReadBlock.
uint64_t sum_words_reference(const void* data, size_t num_bytes);
uint64_t sum_words_avx2(const void* data, size_t num_bytes);
uint64_t sum_words_avx512(const void* data, size_t num_bytes);

// Independent sums, so that one instruction never waits for another: two start each cycle and each
// takes up to six. Twelve, with room for a factor, is what sixteen registers have room for.
// They must stay in registers: every loop over them is unrolled, also those outside the rounds.
constexpr size_t kDotSumsYmm = 12;
constexpr size_t kDotSumsZmm = 16;
constexpr size_t kDotSumsTile = 6;

// `num_rounds` times one instruction for each sum, whose factors are all one: so the sums count the
// multiply-adds, which are returned. At most 2^22 rounds, up to which float32 sums are exact.
uint64_t count_mulps_addps(size_t num_rounds);
uint64_t count_vfmadd_ymm(size_t num_rounds);
uint64_t count_vfmadd_zmm(size_t num_rounds);
uint64_t count_vdpbf16ps_zmm(size_t num_rounds);
uint64_t count_vpmaddwd_ymm(size_t num_rounds);
uint64_t count_vpmaddwd_zmm(size_t num_rounds);
uint64_t count_vpmaddubsw_ymm(size_t num_rounds);
uint64_t count_vpmaddubsw_zmm(size_t num_rounds);
uint64_t count_vpdpbusd_ymm(size_t num_rounds);
uint64_t count_vpdpbusd_zmm(size_t num_rounds);
// An instruction on tiles takes as long as sixteen others: they do a sixteenth of the rounds.
uint64_t count_tdpbf16ps_tile(size_t num_rounds);
uint64_t count_tdpbssd_tile(size_t num_rounds);

}  // namespace millrace
