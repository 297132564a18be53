#include "checkpoint/dequantize.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "checkpoint/blocks/block_bytes.h"
#include "checkpoint/blocks/blocks.h"

namespace millrace {
namespace {

void read_f32(const std::byte* stored, std::span<float> out) {
  if (!out.empty()) std::memcpy(out.data(), stored, out.size_bytes());
}

void read_f16(const std::byte* stored, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = blocks::load_half(stored + 2 * i);
}

void read_bf16(const std::byte* stored, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = std::bit_cast<float>(static_cast<uint32_t>(blocks::load_u16(stored + 2 * i)) << 16);
  }
}

struct StorageFormat {
  BlockLayout layout;
  void (*read)(const std::byte* stored, std::span<float> out);
};

StorageFormat format_of(StorageType storage) {
  switch (storage) {
    case StorageType::kF32:
      return {{1, 4}, read_f32};
    case StorageType::kF16:
      return {{1, 2}, read_f16};
    case StorageType::kBF16:
      return {{1, 2}, read_bf16};
    case StorageType::kQ8_0:
      return {{32, 34}, blocks::read_q8_0};
    case StorageType::kQ4_0:
      return {{32, 18}, blocks::read_q4_0};
    case StorageType::kQ4_1:
      return {{32, 20}, blocks::read_q4_1};
    case StorageType::kQ5_0:
      return {{32, 22}, blocks::read_q5_0};
    case StorageType::kQ5_1:
      return {{32, 24}, blocks::read_q5_1};
    case StorageType::kIQ4_NL:
      return {{32, 18}, blocks::read_iq4_nl};
    case StorageType::kQ2_K:
      return {{256, 84}, blocks::read_q2_k};
    case StorageType::kQ3_K:
      return {{256, 110}, blocks::read_q3_k};
    case StorageType::kQ4_K:
      return {{256, 144}, blocks::read_q4_k};
    case StorageType::kQ5_K:
      return {{256, 176}, blocks::read_q5_k};
    case StorageType::kQ6_K:
      return {{256, 210}, blocks::read_q6_k};
    case StorageType::kIQ4_XS:
      return {{256, 136}, blocks::read_iq4_xs};
    case StorageType::kOther:
      break;
  }
  CHECK(false, "a storage type without a layout");
  return {};
}

}  // namespace

BlockLayout block_layout(StorageType storage) {
  return format_of(storage).layout;
}

void dequantize(StorageType storage, std::span<const std::byte> stored, std::span<float> out) {
  const auto [layout, read] = format_of(storage);
  CHECK(
      out.size() % layout.block_elements == 0 &&
          stored.size() == out.size() / layout.block_elements * layout.block_bytes,
      "stored bytes and elements do not belong together"
  );
  read(stored.data(), out);
}

bool has_codes(StorageType storage) {
  return storage == StorageType::kQ4_0 || storage == StorageType::kQ4_1 ||
         storage == StorageType::kQ4_K;
}

void read_codes(StorageType storage, std::span<const std::byte> stored, const StoredCodes& out) {
  const BlockLayout layout = block_layout(storage);
  const size_t num_blocks = stored.size() / layout.block_bytes;
  CHECK(
      has_codes(storage) && out.num_inputs == 32 &&
          out.codes.size() == num_blocks * layout.block_elements &&
          out.scales.size() == out.codes.size() / 32 && out.bases.size() == out.scales.size(),
      "stored bytes and codes do not belong together"
  );
  const blocks::Codes codes = {out.codes.data(), out.scales.data(), out.bases.data(), num_blocks};
  if (storage == StorageType::kQ4_0) return blocks::read_codes_of_q4_0(stored.data(), codes);
  if (storage == StorageType::kQ4_1) return blocks::read_codes_of_q4_1(stored.data(), codes);
  blocks::read_codes_of_q4_k(stored.data(), codes);
}

}  // namespace millrace
