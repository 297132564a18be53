#include "cuda/model/weight_upload.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "cuda/kernels/pack_codes.h"
#include "tensor/dtype.h"

namespace millrace::cuda {
namespace {

constexpr size_t kStageBytes = size_t{16} << 20;

}  // namespace

Result<WeightUpload> WeightUpload::create(
    const WeightSource& source, StreamHandle stream, ThreadPool& pool, size_t row_length_max
) {
  const size_t num_bytes = std::max(kStageBytes, row_length_max * sizeof(float));
  Result<Stage> first = make_stage(num_bytes);
  if (!first) return first.error();
  Result<Stage> second = make_stage(num_bytes);
  if (!second) return second.error();
  Result<DeviceBuffer> rows = DeviceBuffer::allocate(num_bytes);
  if (!rows) return rows.error();
  return WeightUpload(
      source, stream, pool, *std::move(first), *std::move(second), *std::move(rows)
  );
}

Result<WeightUpload::Stage> WeightUpload::make_stage(size_t num_bytes) {
  Result<PinnedBuffer> buffer = PinnedBuffer::allocate(num_bytes);
  if (!buffer) return buffer.error();
  Result<Event> is_free = Event::create(EventKind::kUntimed);
  if (!is_free) return is_free.error();
  return Stage{.buffer = *std::move(buffer), .is_free = *std::move(is_free)};
}

WeightUpload::Stage& WeightUpload::next_stage() {
  Stage& stage = stages_[next_];
  next_ = 1 - next_;
  stage.is_free.wait();
  return stage;
}

void WeightUpload::send(Stage& stage, std::span<const std::byte> host, void* to) {
  copy_to_device(stream_, to, host);
  stage.is_free.record(stream_);
}

void WeightUpload::clear(uint16_t* packed, size_t num_elements) {
  set_bytes(stream_, packed, 0, num_elements * sizeof(uint16_t));
}

void WeightUpload::pack_as_bfloat16(const TensorInfo& tensor, Place place) {
  const int64_t row_length = tensor.row_length();
  if (row_length == 0) return;
  const std::span<const std::byte> stored = tensor.storage == StorageType::kBF16
                                                ? source_.raw_bytes(tensor)
                                                : std::span<const std::byte>();
  const auto num_rows_max = static_cast<int64_t>(
      stages_[0].buffer.num_bytes() / (static_cast<size_t>(row_length) * sizeof(uint16_t))
  );
  CHECK(num_rows_max > 0, "a row fits into a piece of host memory");
  for (int64_t row = 0; row < tensor.num_rows(); row += num_rows_max) {
    const int64_t num_rows = std::min(num_rows_max, tensor.num_rows() - row);
    const auto begin = static_cast<size_t>(row * row_length);
    const auto count = static_cast<size_t>(num_rows * row_length);
    Stage& stage = next_stage();
    const std::span<uint16_t> rows = stage.buffer.as<uint16_t>().first(count);
    if (stored.empty()) {
      convert_rows(tensor, row, num_rows, rows);
    } else {
      std::memcpy(rows.data(), stored.data() + begin * sizeof(uint16_t), rows.size_bytes());
    }
    auto* const on_device = rows_.as<uint16_t>();
    send(stage, std::as_bytes(rows), on_device);
    pack_weights(
        stream_,
        {.rows = on_device,
         .num_rows = static_cast<size_t>(num_rows),
         .num_inputs = static_cast<size_t>(row_length),
         .places = place.places,
         .first_row = place.first_row + static_cast<size_t>(row),
         .packed = place.packed}
    );
  }
}

void WeightUpload::copy_as_float(const TensorInfo& tensor, float* to) {
  const auto count = static_cast<size_t>(tensor.row_length());
  CHECK(tensor.num_rows() == 1, "a vector");
  Stage& stage = next_stage();
  const std::span<float> values = stage.buffer.as<float>().first(count);
  source_.read_rows(tensor, 0, 1, values);
  send(stage, std::as_bytes(values), to);
}

void WeightUpload::pack_quantized(
    const QuantizedMatrix& matrix, LinearEpilogue epilogue, void* packed
) {
  const size_t panel_bytes = matrix.panel_bytes();
  const size_t num_panels_max = stages_[0].buffer.num_bytes() / (2 * panel_bytes) * 2;
  CHECK(num_panels_max > 0, "two panels fit into a piece of host memory");
  const auto* const panels = static_cast<const std::byte*>(matrix.data());
  for (size_t first = 0; first < matrix.num_panels(); first += num_panels_max) {
    const size_t num_panels = std::min(num_panels_max, matrix.num_panels() - first);
    Stage& stage = next_stage();
    const std::span<std::byte> piece = stage.buffer.bytes().first(num_panels * panel_bytes);
    std::memcpy(piece.data(), panels + first * panel_bytes, piece.size());
    auto* const on_device = rows_.as<std::byte>();
    send(stage, piece, on_device);
    pack_codes(
        stream_,
        {.format = matrix.format(),
         .panels = on_device,
         .num_panels = num_panels,
         .num_inputs = matrix.num_columns(),
         .epilogue = epilogue,
         .first_panel = first,
         .packed = packed}
    );
  }
}

void WeightUpload::copy_bytes(std::span<const std::byte> bytes, void* to) {
  auto* place = static_cast<std::byte*>(to);
  while (!bytes.empty()) {
    Stage& stage = next_stage();
    const std::span<std::byte> piece =
        stage.buffer.bytes().first(std::min(bytes.size(), stage.buffer.num_bytes()));
    std::memcpy(piece.data(), bytes.data(), piece.size());
    send(stage, piece, place);
    bytes = bytes.subspan(piece.size());
    place += piece.size();
  }
}

void WeightUpload::convert_rows(
    const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<uint16_t> out
) {
  const auto row_length = static_cast<size_t>(tensor.row_length());
  pool_.parallel_for(static_cast<size_t>(num_rows), [&](size_t begin, size_t end) {
    std::vector<float> row(row_length);
    for (size_t i = begin; i < end; ++i) {
      source_.read_rows(tensor, row_begin + static_cast<int64_t>(i), 1, row);
      std::ranges::transform(
          row,
          out.begin() + static_cast<ptrdiff_t>(i * row_length),
          [](float x) { return to_bfloat16(x).bits; }
      );
    }
  });
}

}  // namespace millrace::cuda
