#include "checkpoint/blocks/block_bytes.h"
#include "checkpoint/blocks/blocks.h"

namespace millrace::blocks {
namespace {

constexpr size_t kBlock = 32;
constexpr size_t kHalf = kBlock / 2;

// weight(nibble, i) of each weight i of a block.
template <class T, class Weight>
void read_nibbles(const std::byte* stored, T* x, const Weight& weight) {
  const auto quants = load_bytes<kHalf>(stored);
  for (size_t i = 0; i < kHalf; ++i) {
    x[i] = weight(quants[i] & 0x0F, i);
    x[i + kHalf] = weight(quants[i] >> 4, i + kHalf);
  }
}

int fifth_bit(uint32_t bits, size_t i) {
  return static_cast<int>(bits >> i & 1U) << 4;
}

// `high`: the fifth bits; 0 where there are none.
void copy_codes(const std::byte* stored, uint32_t high, uint8_t* codes) {
  read_nibbles(stored, codes, [&](int q, size_t i) {
    return static_cast<uint8_t>(q + fifth_bit(high, i));
  });
}

}  // namespace

void read_q8_0(const std::byte* block, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += kBlock, block += 34) {
    const float scale = load_half(block);
    int8_t quants[kBlock];
    std::memcpy(quants, block + 2, sizeof quants);
    float* const x = out.data() + begin;
    for (size_t i = 0; i < kBlock; ++i) x[i] = scale * static_cast<float>(quants[i]);
  }
}

void read_q4_0(const std::byte* block, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += kBlock, block += 18) {
    const float scale = load_half(block);
    read_nibbles(block + 2, out.data() + begin, [&](int q, size_t) {
      return scale * static_cast<float>(q - 8);
    });
  }
}

void read_q4_1(const std::byte* block, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += kBlock, block += 20) {
    const float scale = load_half(block);
    const float minimum = load_half(block + 2);
    read_nibbles(block + 4, out.data() + begin, [&](int q, size_t) {
      return scale * static_cast<float>(q) + minimum;
    });
  }
}

void read_q5_0(const std::byte* block, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += kBlock, block += 22) {
    const float scale = load_half(block);
    const uint32_t high = load_u32(block + 2);
    read_nibbles(block + 6, out.data() + begin, [&](int q, size_t i) {
      return scale * static_cast<float>(q + fifth_bit(high, i) - 16);
    });
  }
}

void read_q5_1(const std::byte* block, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += kBlock, block += 24) {
    const float scale = load_half(block);
    const float minimum = load_half(block + 2);
    const uint32_t high = load_u32(block + 4);
    read_nibbles(block + 8, out.data() + begin, [&](int q, size_t i) {
      return scale * static_cast<float>(q + fifth_bit(high, i)) + minimum;
    });
  }
}

void read_iq4_nl(const std::byte* block, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += kBlock, block += 18) {
    const float scale = load_half(block);
    read_nibbles(block + 2, out.data() + begin, [&](int q, size_t) {
      return scale * kIq4Values[static_cast<size_t>(q)];
    });
  }
}

void read_codes_of_q8_0(const std::byte* block, const Codes& out) {
  for (size_t i = 0; i < out.num_blocks; ++i, block += 34) {
    out.scales[i] = load_half(block);
    out.bases[i] = -128.0F * out.scales[i];
    const auto quants = load_bytes<kBlock>(block + 2);
    // Another highest bit adds 128.
    for (size_t j = 0; j < kBlock; ++j) out.codes[i * kBlock + j] = quants[j] ^ 0x80;
  }
}

void read_codes_of_iq4_nl(const std::byte* block, const Codes& out) {
  for (size_t i = 0; i < out.num_blocks; ++i, block += 18) {
    out.scales[i] = load_half(block);
    out.bases[i] = -128.0F * out.scales[i];
    read_nibbles(block + 2, out.codes + i * kBlock, [](int q, size_t) {
      return kIq4Codes[static_cast<size_t>(q)];
    });
  }
}

void read_codes_of_q4_0(const std::byte* block, const Codes& out) {
  for (size_t i = 0; i < out.num_blocks; ++i, block += 18) {
    out.scales[i] = load_half(block);
    out.bases[i] = -8.0F * out.scales[i];
    copy_codes(block + 2, 0, out.codes + i * kBlock);
  }
}

void read_codes_of_q4_1(const std::byte* block, const Codes& out) {
  for (size_t i = 0; i < out.num_blocks; ++i, block += 20) {
    out.scales[i] = load_half(block);
    out.bases[i] = load_half(block + 2);
    copy_codes(block + 4, 0, out.codes + i * kBlock);
  }
}

void read_codes_of_q5_0(const std::byte* block, const Codes& out) {
  for (size_t i = 0; i < out.num_blocks; ++i, block += 22) {
    out.scales[i] = load_half(block);
    out.bases[i] = -16.0F * out.scales[i];
    copy_codes(block + 6, load_u32(block + 2), out.codes + i * kBlock);
  }
}

void read_codes_of_q5_1(const std::byte* block, const Codes& out) {
  for (size_t i = 0; i < out.num_blocks; ++i, block += 24) {
    out.scales[i] = load_half(block);
    out.bases[i] = load_half(block + 2);
    copy_codes(block + 8, load_u32(block + 4), out.codes + i * kBlock);
  }
}

}  // namespace millrace::blocks
