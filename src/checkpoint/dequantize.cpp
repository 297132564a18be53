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
  CodeForm form = {};
  void (*read_codes)(const std::byte* stored, const blocks::Codes& out) = nullptr;
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
      return {{32, 34}, blocks::read_q8_0, {8, 32, true}, blocks::read_codes_of_q8_0};
    case StorageType::kQ4_0:
      return {{32, 18}, blocks::read_q4_0, {4, 32, true}, blocks::read_codes_of_q4_0};
    case StorageType::kQ4_1:
      return {{32, 20}, blocks::read_q4_1, {4, 32, false}, blocks::read_codes_of_q4_1};
    case StorageType::kQ5_0:
      return {{32, 22}, blocks::read_q5_0, {5, 32, true}, blocks::read_codes_of_q5_0};
    case StorageType::kQ5_1:
      return {{32, 24}, blocks::read_q5_1, {5, 32, false}, blocks::read_codes_of_q5_1};
    case StorageType::kIQ4_NL:
      return {{32, 18}, blocks::read_iq4_nl, {8, 32, true, true}, blocks::read_codes_of_iq4_nl};
    case StorageType::kQ2_K:
      return {{256, 84}, blocks::read_q2_k, {2, 16, false}, blocks::read_codes_of_q2_k};
    case StorageType::kQ3_K:
      return {{256, 110}, blocks::read_q3_k, {3, 16, true}, blocks::read_codes_of_q3_k};
    case StorageType::kQ4_K:
      return {{256, 144}, blocks::read_q4_k, {4, 32, false}, blocks::read_codes_of_q4_k};
    case StorageType::kQ5_K:
      return {{256, 176}, blocks::read_q5_k, {5, 32, false}, blocks::read_codes_of_q5_k};
    case StorageType::kQ6_K:
      return {{256, 210}, blocks::read_q6_k, {6, 16, true}, blocks::read_codes_of_q6_k};
    case StorageType::kIQ4_XS:
      return {{256, 136}, blocks::read_iq4_xs, {8, 32, true, true}, blocks::read_codes_of_iq4_xs};
    case StorageType::kOther:
      break;
  }
  CHECK(false, "a storage type without a layout");
  return {};
}

// Each of the first values so many times, in place: all of `values`.
void repeat_each(std::span<float> values, size_t times) {
  for (size_t i = values.size(); i-- > 0;) values[i] = values[i / times];
}

}  // namespace

BlockLayout block_layout(StorageType storage) {
  return format_of(storage).layout;
}

void dequantize(StorageType storage, std::span<const std::byte> stored, std::span<float> out) {
  const StorageFormat format = format_of(storage);
  const BlockLayout& layout = format.layout;
  CHECK(
      out.size() % layout.block_elements == 0 &&
          stored.size() == out.size() / layout.block_elements * layout.block_bytes,
      "stored bytes and elements do not belong together"
  );
  format.read(stored.data(), out);
}

CodeForm code_form(StorageType storage) {
  return storage == StorageType::kOther ? CodeForm{} : format_of(storage).form;
}

void read_codes(StorageType storage, std::span<const std::byte> stored, const StoredCodes& out) {
  const StorageFormat format = format_of(storage);
  const CodeForm& form = format.form;
  const size_t num_blocks = stored.size() / format.layout.block_bytes;
  CHECK(
      form && out.num_inputs > 0 && form.num_inputs % out.num_inputs == 0 &&
          out.codes.size() == num_blocks * format.layout.block_elements &&
          out.scales.size() == out.codes.size() / out.num_inputs &&
          out.bases.size() == out.scales.size(),
      "stored bytes and codes do not belong together"
  );
  format.read_codes(
      stored.data(), {out.codes.data(), out.scales.data(), out.bases.data(), num_blocks}
  );
  repeat_each(out.scales, form.num_inputs / out.num_inputs);
  repeat_each(out.bases, form.num_inputs / out.num_inputs);
}

}  // namespace millrace
