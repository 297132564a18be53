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

// What a format of whole numbers is made of: its bytes, the weights of a group, and
// for_groups(block, visit), which calls visit(group, scale, base, code) for each group of a block;
// weight i of it is scale * code(i) + base. Where kZero is not 0, base is -kZero * scale.
//
// In Q2_K and Q3_K each 32 bytes hold 128 weights: bits 0 and 1 the first 32 of them, and so on.
struct Q2K {
  static constexpr size_t kBytes = 84;
  static constexpr size_t kGroup = 16;
  static constexpr int kZero = 0;

  template <class Visit>
  static void for_groups(const std::byte* block, const Visit& visit) {
    const auto groups = load_bytes<16>(block);
    const auto quants = load_bytes<64>(block + 16);
    const float scale = load_half(block + 80);
    const float minimum = load_half(block + 82);
    for (size_t group = 0; group < 16; ++group) {
      const float group_scale = scale * static_cast<float>(groups[group] & 0x0F);
      const float group_minimum = minimum * static_cast<float>(groups[group] >> 4);
      const uint8_t* const q = quants.data() + group / 8 * 32 + group % 2 * 16;
      const auto shift = static_cast<int>(group % 8 / 2 * 2);
      visit(group, group_scale, -group_minimum, [&](size_t i) { return q[i] >> shift & 0x03; });
    }
  }
};

struct Q3K {
  static constexpr size_t kBytes = 110;
  static constexpr size_t kGroup = 16;
  static constexpr int kZero = 4;

  template <class Visit>
  static void for_groups(const std::byte* block, const Visit& visit) {
    const auto high = load_bytes<32>(block);
    const auto quants = load_bytes<64>(block + 32);
    const std::array<float, 16> scales = load_q3_scales(block + 96, load_half(block + 108));
    for (size_t group = 0; group < 16; ++group) {
      const uint8_t* const q = quants.data() + group / 8 * 32 + group % 2 * 16;
      const uint8_t* const h = high.data() + group % 2 * 16;
      const auto shift = static_cast<int>(group % 8 / 2 * 2);
      const auto bit = static_cast<int>(group / 2);
      visit(group, scales[group], -kZero * scales[group], [&](size_t i) {
        return (q[i] >> shift & 0x03) | (h[i] >> bit & 0x01) << 2;
      });
    }
  }
};

// In Q4_K and Q5_K each 32 bytes hold 64 weights, the first 32 in the low nibbles.
struct Q4K {
  static constexpr size_t kBytes = 144;
  static constexpr size_t kGroup = 32;
  static constexpr int kZero = 0;

  template <class Visit>
  static void for_groups(const std::byte* block, const Visit& visit) {
    const GroupScales groups = load_group_scales(block);
    const auto quants = load_bytes<128>(block + 16);
    for (size_t group = 0; group < 8; ++group) {
      const uint8_t* const q = quants.data() + group / 2 * 32;
      const auto shift = static_cast<int>(group % 2 * 4);
      visit(group, groups.scales[group], -groups.minima[group], [&](size_t i) {
        return q[i] >> shift & 0x0F;
      });
    }
  }
};

struct Q5K {
  static constexpr size_t kBytes = 176;
  static constexpr size_t kGroup = 32;
  static constexpr int kZero = 0;

  template <class Visit>
  static void for_groups(const std::byte* block, const Visit& visit) {
    const GroupScales groups = load_group_scales(block);
    const auto high = load_bytes<32>(block + 16);
    const auto quants = load_bytes<128>(block + 48);
    for (size_t group = 0; group < 8; ++group) {
      const uint8_t* const q = quants.data() + group / 2 * 32;
      const auto shift = static_cast<int>(group % 2 * 4);
      const auto bit = static_cast<int>(group);
      visit(group, groups.scales[group], -groups.minima[group], [&](size_t i) {
        return (q[i] >> shift & 0x0F) | (high[i] >> bit & 0x01) << 4;
      });
    }
  }
};

// Each 64 bytes of nibbles and 32 of high bits hold 128 weights, 32 at a time.
struct Q6K {
  static constexpr size_t kBytes = 210;
  static constexpr size_t kGroup = 16;
  static constexpr int kZero = 32;

  template <class Visit>
  static void for_groups(const std::byte* block, const Visit& visit) {
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
      const float group_scale = scale * static_cast<float>(scales[group]);
      visit(group, group_scale, -kZero * group_scale, [&](size_t i) {
        return (q[i] >> shift & 0x0F) | (h[i] >> high_shift & 0x03) << 4;
      });
    }
  }
};

// IQ4_XS looks its values up: visit(group, scale, q) of each group of 32, whose bytes q have weight
// i and, above it, i + 16.
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

// Around zero as the definition has it, scale * (code - zero): a sum with the base would lose the
// signs of zeros.
template <class Block>
void read_values(const std::byte* block, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += kBlock, block += Block::kBytes) {
    const auto visit = [&](size_t group, float scale, float base, const auto& code) {
      float* const x = out.data() + begin + group * Block::kGroup;
      for (size_t i = 0; i < Block::kGroup; ++i) {
        const float product = scale * static_cast<float>(code(i) - Block::kZero);
        x[i] = Block::kZero == 0 ? product + base : product;
      }
    };
    Block::for_groups(block, visit);
  }
}

template <class Block>
void read_codes(const std::byte* block, const Codes& out) {
  constexpr size_t kGroups = kBlock / Block::kGroup;
  for (size_t i = 0; i < out.num_blocks; ++i, block += Block::kBytes) {
    Block::for_groups(block, [&](size_t group, float scale, float base, const auto& code) {
      const size_t place = i * kGroups + group;
      out.scales[place] = scale;
      out.bases[place] = base;
      uint8_t* const codes = out.codes + place * Block::kGroup;
      for (size_t j = 0; j < Block::kGroup; ++j) codes[j] = static_cast<uint8_t>(code(j));
    });
  }
}

}  // namespace

void read_q2_k(const std::byte* block, std::span<float> out) {
  read_values<Q2K>(block, out);
}
void read_codes_of_q2_k(const std::byte* block, const Codes& out) {
  read_codes<Q2K>(block, out);
}

void read_q3_k(const std::byte* block, std::span<float> out) {
  read_values<Q3K>(block, out);
}
void read_codes_of_q3_k(const std::byte* block, const Codes& out) {
  read_codes<Q3K>(block, out);
}

void read_q4_k(const std::byte* block, std::span<float> out) {
  read_values<Q4K>(block, out);
}
void read_codes_of_q4_k(const std::byte* block, const Codes& out) {
  read_codes<Q4K>(block, out);
}

void read_q5_k(const std::byte* block, std::span<float> out) {
  read_values<Q5K>(block, out);
}
void read_codes_of_q5_k(const std::byte* block, const Codes& out) {
  read_codes<Q5K>(block, out);
}

void read_q6_k(const std::byte* block, std::span<float> out) {
  read_values<Q6K>(block, out);
}
void read_codes_of_q6_k(const std::byte* block, const Codes& out) {
  read_codes<Q6K>(block, out);
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
        codes[j] = kIq4Codes[q[j] & 0x0F];
        codes[j + 16] = kIq4Codes[q[j] >> 4];
      }
    });
  }
}

}  // namespace millrace::blocks
