// Stored weights to float32. Exact for F32, F16 and BF16; for the block formats the value is what
// their definition says, evaluated in float32 with one rounding per operation, so that it is equal
// bit for bit to the reference implementation of the GGUF format (`gguf.quants.dequantize`).
#pragma once

#include <cstddef>
#include <span>

#include "checkpoint/weight_source.h"

namespace millrace {

// `block_bytes` bytes hold `block_elements` consecutive elements of a row. The block formats:
// checkpoint/blocks/blocks.h.
struct BlockLayout {
  size_t block_elements = 1;
  size_t block_bytes = 0;
};

// REQUIRES: storage is not kOther.
BlockLayout block_layout(StorageType storage);

// `stored`: whole blocks in little-endian byte order, without alignment; `out`: their elements.
// REQUIRES: storage is not kOther, and the two sizes belong together.
void dequantize(StorageType storage, std::span<const std::byte> stored, std::span<float> out);

// What weights are that are code * scale + base: those of all block types; none of F32, F16, BF16.
CodeForm code_form(StorageType storage);

// Those of all that is stored. They stand for the values of dequantize(), and for no others by
// rounding: float16 scales, the whole numbers of groups and codes have 24 bits together at most, so
// that the products are exact. REQUIRES: out.num_inputs divides that of code_form(), and the sizes
// belong together.
void read_codes(StorageType storage, std::span<const std::byte> stored, const StoredCodes& out);

}  // namespace millrace
