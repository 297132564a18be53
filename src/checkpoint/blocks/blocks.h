// The block formats of GGUF: `out.size()` weights, whole blocks of them, from their stored bytes.
// Each value is what its definition says, evaluated in float32 with one rounding an operation.
// d, m: float16 scales of a block, read as they are; bytes are little-endian and unaligned.
// Source: ggml-common.h and ggml-quants.c of the ggml repository.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace::blocks {

// Blocks of 32. Low nibbles are weights 0 to 15 of a block, high nibbles 16 to 31; h is the fifth
// bit, of weight i in bit i of a word.
//   Q8_0 (34 bytes): d, 32 x int8 q:                       d * q
//   Q4_0 (18): d, 16 bytes of nibbles q:                   d * (q - 8)
//   Q4_1 (20): d, m, nibbles:                              d * q + m
//   Q5_0 (22): d, 4 bytes of h, nibbles:                   d * (q + 16 h - 16)
//   Q5_1 (24): d, m, 4 bytes of h, nibbles:                d * (q + 16 h) + m
//   IQ4_NL (18): d, nibbles, indices of sixteen values v:  d * v[q]
void read_q8_0(const std::byte* block, std::span<float> out);
void read_q4_0(const std::byte* block, std::span<float> out);
void read_q4_1(const std::byte* block, std::span<float> out);
void read_q5_0(const std::byte* block, std::span<float> out);
void read_q5_1(const std::byte* block, std::span<float> out);
void read_iq4_nl(const std::byte* block, std::span<float> out);

// Blocks of 256, in groups whose scales s and minima n are integers.
//   Q2_K (84 bytes): 16 bytes of s and n (4 bits each, of 16 weights), 64 of q, d, m:
//                                                          (d s) * q - (m n)
//   Q3_K (110): 32 bytes of third bits h, 64 of q, 12 of s (6 bits, of 16 weights), d:
//                                                          (d (s - 32)) * (q + 4 h - 4)
//   Q4_K (144): d, m, 12 bytes of s and n (6 bits each, of 32 weights), nibbles:
//                                                          (d s) * q - (m n)
//   Q5_K (176): the same with 32 bytes of fifth bits h before the nibbles:
//                                                          (d s) * (q + 16 h) - (m n)
//   Q6_K (210): nibbles, 64 bytes of two high bits h, 16 x int8 s (of 16 weights), d:
//                                                          (d s) * (q + 16 h - 32)
//   IQ4_XS (136): d, 2 and 4 bytes of s (6 bits, of 32 weights), nibbles as in IQ4_NL:
//                                                          (d (s - 32)) * v[q]
void read_q2_k(const std::byte* block, std::span<float> out);
void read_q3_k(const std::byte* block, std::span<float> out);
void read_q4_k(const std::byte* block, std::span<float> out);
void read_q5_k(const std::byte* block, std::span<float> out);
void read_q6_k(const std::byte* block, std::span<float> out);
void read_iq4_xs(const std::byte* block, std::span<float> out);

// The codes of so many blocks, q and what h adds, or q + 128 of Q8_0 and v[q] + 128 of IQ4, and of
// each group a scale and a base: weight = code * scale + base. Groups are of 32 weights, of Q2_K,
// Q3_K and Q6_K of 16.
struct Codes {
  uint8_t* codes;
  float* scales;
  float* bases;
  size_t num_blocks;
};
void read_codes_of_q8_0(const std::byte* block, const Codes& out);
void read_codes_of_q4_0(const std::byte* block, const Codes& out);
void read_codes_of_q4_1(const std::byte* block, const Codes& out);
void read_codes_of_q5_0(const std::byte* block, const Codes& out);
void read_codes_of_q5_1(const std::byte* block, const Codes& out);
void read_codes_of_iq4_nl(const std::byte* block, const Codes& out);
void read_codes_of_q2_k(const std::byte* block, const Codes& out);
void read_codes_of_q3_k(const std::byte* block, const Codes& out);
void read_codes_of_q4_k(const std::byte* block, const Codes& out);
void read_codes_of_q5_k(const std::byte* block, const Codes& out);
void read_codes_of_q6_k(const std::byte* block, const Codes& out);
void read_codes_of_iq4_xs(const std::byte* block, const Codes& out);

}  // namespace millrace::blocks
