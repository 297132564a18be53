#include "checkpoint/blocks/block_bytes.h"
#include "checkpoint/blocks/blocks.h"

namespace millrace::blocks {
namespace {

constexpr size_t kBlock = 256;

// Scales and minima of the groups of 32 of Q4_K and Q5_K: six bits each, those of groups 4 to 7 in
// two parts.
struct GroupScales {
  std::array<float, 8> scales;
  std::array<float, 8> minima;
};
GroupScales load_group_scales(const std::byte* block) {
  const float scale = load_half(block);
  const float minimum = load_half(block + 2);
  const auto packed = load_bytes<12>(block + 4);
  GroupScales groups;
  for (size_t i = 0; i < 4; ++i) {
    const uint8_t s = packed[i];
    const uint8_t n = packed[i + 4];
    const uint8_t rest = packed[i + 8];
    groups.scales[i] = scale * static_cast<float>(s & 0x3F);
    groups.minima[i] = minimum * static_cast<float>(n & 0x3F);
    groups.scales[i + 4] = scale * static_cast<float>((rest & 0x0F) | (s >> 6 << 4));
    groups.minima[i + 4] = minimum * static_cast<float>((rest >> 4) | (n >> 6 << 4));
  }
  return groups;
}

// Q3_K's sixteen scales: low four bits, then high two of four at a time.
std::array<float, 16> load_q3_scales(const std::byte* stored, float scale) {
  const auto packed = load_bytes<12>(stored);
  std::array<float, 16> scales;
  for (size_t i = 0; i < 16; ++i) {
    const int low = packed[i % 8] >> (i / 8 * 4) & 0x0F;
    const int high = packed[8 + i % 4] >> (i / 4 * 2) & 0x03;
    scales[i] = scale * static_cast<float>((low | high << 4) - 32);
  }
  return scales;
}

void copy_group_scales(const GroupScales& groups, const Codes& out, size_t block) {
  for (size_t group = 0; group < 8; ++group) {
    out.scales[block * 8 + group] = groups.scales[group];
    out.bases[block * 8 + group] = -groups.minima[group];
  }
}

template <size_t kCount, class Code>
void copy_codes(const Code& code, uint8_t* to) {
  for (size_t i = 0; i < kCount; ++i) to[i] = static_cast<uint8_t>(code(i));
}

// visit(group, scale, minimum, code) of each group of 16 weights of a block, whose codes are
// code(i). In Q2_K and Q3_K each 32
// bytes hold 128 weights: bits 0 and 1 the first 32 of them, and so on.
template <class Visit>
void for_groups_of_q2_k(const std::byte* block, const Visit& visit) {
  const auto groups = load_bytes<16>(block);
  const auto quants = load_bytes<64>(block + 16);
  const float scale = load_half(block + 80);
  const float minimum = load_half(block + 82);
  for (size_t group = 0; group < 16; ++group) {
    const float group_scale = scale * static_cast<float>(groups[group] & 0x0F);
    const float group_minimum = minimum * static_cast<float>(groups[group] >> 4);
    const uint8_t* const q = quants.data() + group / 8 * 32 + group % 2 * 16;
    const auto shift = static_cast<int>(group % 8 / 2 * 2);
    visit(group, group_scale, group_minimum, [&](size_t i) { return q[i] >> shift & 0x03; });
  }
}

// visit(group, scale, code) of each group of 16.
template <class Visit>
void for_groups_of_q3_k(const std::byte* block, const Visit& visit) {
  const auto high = load_bytes<32>(block);
  const auto quants = load_bytes<64>(block + 32);
  const std::array<float, 16> scales = load_q3_scales(block + 96, load_half(block + 108));
  for (size_t group = 0; group < 16; ++group) {
    const uint8_t* const q = quants.data() + group / 8 * 32 + group % 2 * 16;
    const uint8_t* const h = high.data() + group % 2 * 16;
    const auto shift = static_cast<int>(group % 8 / 2 * 2);
    const auto bit = static_cast<int>(group / 2);
    visit(group, scales[group], [&](size_t i) {
      return (q[i] >> shift & 0x03) | (h[i] >> bit & 0x01) << 2;
    });
  }
}

// visit(group, code) of each group of 32.
template <class Visit>
void for_groups_of_q4_k(const std::byte* block, const Visit& visit) {
  const auto quants = load_bytes<128>(block + 16);
  for (size_t group = 0; group < 8; ++group) {
    const uint8_t* const q = quants.data() + group / 2 * 32;
    const auto shift = static_cast<int>(group % 2 * 4);
    visit(group, [&](size_t i) { return q[i] >> shift & 0x0F; });
  }
}

template <class Visit>
void for_groups_of_q5_k(const std::byte* block, const Visit& visit) {
  const auto high = load_bytes<32>(block + 16);
  const auto quants = load_bytes<128>(block + 48);
  for (size_t group = 0; group < 8; ++group) {
    const uint8_t* const q = quants.data() + group / 2 * 32;
    const auto shift = static_cast<int>(group % 2 * 4);
    const auto bit = static_cast<int>(group);
    visit(group, [&](size_t i) { return (q[i] >> shift & 0x0F) | (high[i] >> bit & 0x01) << 4; });
  }
}

// visit(group, scale, code) of each group of 16. Each 64 bytes of nibbles and 32 of high bits hold
// 128 weights, 32 at a time.
template <class Visit>
void for_groups_of_q6_k(const std::byte* block, const Visit& visit) {
  const auto low = load_bytes<128>(block);
  const auto high = load_bytes<64>(block + 128);
  int8_t scales[16];
  std::memcpy(scales, block + 192, sizeof scales);
  const float scale = load_half(block + 208);
  for (size_t group = 0; group < 16; ++group) {
    const size_t half = group / 8;
    const size_t part = group % 8 / 2;
    const uint8_t* const q = low.data() + half * 64 + part % 2 * 32 + group % 2 * 16;
    const uint8_t* const h = high.data() + half * 32 + group % 2 * 16;
    const auto shift = static_cast<int>(part / 2 * 4);
    const auto high_shift = static_cast<int>(part * 2);
    visit(group, scale * static_cast<float>(scales[group]), [&](size_t i) {
      return (q[i] >> shift & 0x0F) | (h[i] >> high_shift & 0x03) << 4;
    });
  }
}

// visit(group, scale, q) of each group of 32, whose bytes q have weight i and, above it, i + 16.
template <class Visit>
void for_groups_of_iq4_xs(const std::byte* block, const Visit& visit) {
  const float scale = load_half(block);
  const uint16_t high = load_u16(block + 2);
  const auto low = load_bytes<4>(block + 4);
  const auto quants = load_bytes<128>(block + 8);
  for (size_t group = 0; group < 8; ++group) {
    const int s = (low[group / 2] >> (group % 2 * 4) & 0x0F) | (high >> (group * 2) & 0x03) << 4;
    visit(group, scale * static_cast<float>(s - 32), quants.data() + group * 16);
  }
}

}  // namespace

void read_q2_k(const std::byte* block, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += kBlock, block += 84) {
    for_groups_of_q2_k(block, [&](size_t group, float scale, float minimum, const auto& code) {
      float* const x = out.data() + begin + group * 16;
      for (size_t i = 0; i < 16; ++i) x[i] = scale * static_cast<float>(code(i)) - minimum;
    });
  }
}

void read_codes_of_q2_k(const std::byte* block, const Codes& out) {
  for (size_t i = 0; i < out.num_blocks; ++i, block += 84) {
    for_groups_of_q2_k(block, [&](size_t group, float scale, float minimum, const auto& code) {
      out.scales[i * 16 + group] = scale;
      out.bases[i * 16 + group] = -minimum;
      copy_codes<16>(code, out.codes + i * kBlock + group * 16);
    });
  }
}

void read_q3_k(const std::byte* block, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += kBlock, block += 110) {
    for_groups_of_q3_k(block, [&](size_t group, float scale, const auto& code) {
      float* const x = out.data() + begin + group * 16;
      for (size_t i = 0; i < 16; ++i) x[i] = scale * static_cast<float>(code(i) - 4);
    });
  }
}

void read_codes_of_q3_k(const std::byte* block, const Codes& out) {
  for (size_t i = 0; i < out.num_blocks; ++i, block += 110) {
    for_groups_of_q3_k(block, [&](size_t group, float scale, const auto& code) {
      out.scales[i * 16 + group] = scale;
      out.bases[i * 16 + group] = -4.0F * scale;
      copy_codes<16>(code, out.codes + i * kBlock + group * 16);
    });
  }
}

// In Q4_K and Q5_K each 32 bytes hold 64 weights, the first 32 in the low nibbles.
void read_q4_k(const std::byte* block, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += kBlock, block += 144) {
    const GroupScales groups = load_group_scales(block);
    for_groups_of_q4_k(block, [&](size_t group, const auto& code) {
      float* const x = out.data() + begin + group * 32;
      for (size_t i = 0; i < 32; ++i) {
        x[i] = groups.scales[group] * static_cast<float>(code(i)) - groups.minima[group];
      }
    });
  }
}

void read_codes_of_q4_k(const std::byte* block, const Codes& out) {
  for (size_t i = 0; i < out.num_blocks; ++i, block += 144) {
    copy_group_scales(load_group_scales(block), out, i);
    for_groups_of_q4_k(block, [&](size_t group, const auto& code) {
      copy_codes<32>(code, out.codes + i * kBlock + group * 32);
    });
  }
}

void read_q5_k(const std::byte* block, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += kBlock, block += 176) {
    const GroupScales groups = load_group_scales(block);
    for_groups_of_q5_k(block, [&](size_t group, const auto& code) {
      float* const x = out.data() + begin + group * 32;
      for (size_t i = 0; i < 32; ++i) {
        x[i] = groups.scales[group] * static_cast<float>(code(i)) - groups.minima[group];
      }
    });
  }
}

void read_codes_of_q5_k(const std::byte* block, const Codes& out) {
  for (size_t i = 0; i < out.num_blocks; ++i, block += 176) {
    copy_group_scales(load_group_scales(block), out, i);
    for_groups_of_q5_k(block, [&](size_t group, const auto& code) {
      copy_codes<32>(code, out.codes + i * kBlock + group * 32);
    });
  }
}

void read_q6_k(const std::byte* block, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += kBlock, block += 210) {
    for_groups_of_q6_k(block, [&](size_t group, float scale, const auto& code) {
      float* const x = out.data() + begin + group * 16;
      for (size_t i = 0; i < 16; ++i) x[i] = scale * static_cast<float>(code(i) - 32);
    });
  }
}

void read_codes_of_q6_k(const std::byte* block, const Codes& out) {
  for (size_t i = 0; i < out.num_blocks; ++i, block += 210) {
    for_groups_of_q6_k(block, [&](size_t group, float scale, const auto& code) {
      out.scales[i * 16 + group] = scale;
      out.bases[i * 16 + group] = -32.0F * scale;
      copy_codes<16>(code, out.codes + i * kBlock + group * 16);
    });
  }
}

void read_iq4_xs(const std::byte* block, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += kBlock, block += 136) {
    for_groups_of_iq4_xs(block, [&](size_t group, float scale, const uint8_t* q) {
      float* const x = out.data() + begin + group * 32;
      for (size_t i = 0; i < 16; ++i) {
        x[i] = scale * kIq4Values[q[i] & 0x0F];
        x[i + 16] = scale * kIq4Values[q[i] >> 4];
      }
    });
  }
}

void read_codes_of_iq4_xs(const std::byte* block, const Codes& out) {
  for (size_t i = 0; i < out.num_blocks; ++i, block += 136) {
    for_groups_of_iq4_xs(block, [&](size_t group, float scale, const uint8_t* q) {
      out.scales[i * 8 + group] = scale;
      out.bases[i * 8 + group] = -128.0F * scale;
      uint8_t* const codes = out.codes + i * kBlock + group * 32;
      for (size_t j = 0; j < 16; ++j) {
        codes[j] = iq4_code(q[j] & 0x0F);
        codes[j + 16] = iq4_code(q[j] >> 4);
      }
    });
  }
}

}  // namespace millrace::blocks
