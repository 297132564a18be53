// Any bytes as the tensors of a quantized checkpoint: refused, or every row can be read.
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "checkpoint/dequantize.h"
#include "checkpoint/quantized/quantized_weights.h"
#include "checkpoint/safetensors.h"

namespace millrace {
namespace {

// The tensors of a safetensors file in memory.
class ParsedSource : public WeightSource {
 public:
  explicit ParsedSource(std::vector<SafetensorsTensor> tensors) : tensors_(std::move(tensors)) {
    for (const SafetensorsTensor& tensor : tensors_) infos_.push_back(tensor.info);
  }
  std::span<const TensorInfo> tensors() const override { return infos_; }
  const TensorInfo* find(std::string_view name) const override {
    const auto found = std::ranges::find(infos_, name, &TensorInfo::name);
    return found == infos_.end() ? nullptr : &*found;
  }
  void read_rows(const TensorInfo&, int64_t, int64_t, std::span<float> out) const override {
    std::ranges::fill(out, 0.0F);
  }
  std::span<const std::byte> raw_bytes(const TensorInfo& tensor) const override {
    const auto is_it = [&](const SafetensorsTensor& one) { return one.info.name == tensor.name; };
    return std::ranges::find_if(tensors_, is_it)->bytes;
  }

 private:
  std::vector<SafetensorsTensor> tensors_;
  std::vector<TensorInfo> infos_;
};

void read_all(const WeightSource& weights, const TensorInfo& tensor) {
  const auto width = static_cast<size_t>(tensor.row_length());
  std::vector<float> row(width);
  std::vector<uint8_t> codes(width);
  const CodeForm form = weights.code_form(tensor);
  std::vector<float> scales(form ? div_ceil(width, form.num_inputs) : 0);
  std::vector<float> bases(scales.size());
  for (int64_t i = 0; i < tensor.num_rows(); ++i) {
    weights.read_rows(tensor, i, 1, row);
    if (!form) continue;
    weights.read_codes(tensor, i, 1, {codes, scales, bases, form.num_inputs});
    CHECK(std::ranges::max(codes) < 1 << form.bits, "a code of more bits");
  }
}

}  // namespace
}  // namespace millrace

// The first four bytes choose the configuration, the others are the file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  if (size < 4) return 0;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data + 4), size - 4);
  Result<SafetensorsHeader> header = parse_safetensors(file);
  if (!header || header->tensors.size() > 64) return 0;
  const QuantizationConfig config{
      .method = static_cast<QuantizationMethod>(data[0] % 4),
      .bits = std::array{2, 3, 4, 8}[data[1] % 4],
      .group_size = data[2],
      .zeros_are_one_less = data[1] > 127,
      .block_rows = data[3] % 16,
      .block_columns = 1 + data[3] / 16};
  const auto weights =
      plain_weights(std::make_unique<ParsedSource>(std::move(header->tensors)), config);
  if (!weights) {
    CHECK(!weights.error().message.empty(), "an error that says nothing");
    return 0;
  }
  for (const TensorInfo& tensor : (*weights)->tensors()) {
    // Rows of nothing are only slow.
    if (tensor.num_rows() <= 4096 && tensor.row_length() <= 65536) read_all(**weights, tensor);
  }
  return 0;
}
