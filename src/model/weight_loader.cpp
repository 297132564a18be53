#include "model/weight_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "checkpoint/printable.h"

namespace millrace {
namespace {

constexpr size_t kPanelRows = WeightMatrix::kPanelRows;

// By their bits: with the sign cleared, one step of the exponent carries those that are not finite,
// whose exponent is the last, into the sign. One pass of three operations of integers, which the
// compiler makes vectors of, over rows that are in the cache.
bool are_finite(std::span<const float> values) {
  constexpr uint32_t kExponentStep = 1U << 23;
  uint32_t carried = 0;
  for (const float value : values) {
    carried |= (std::bit_cast<uint32_t>(value) & 0x7fffffffU) + kExponentStep;
  }
  return (carried >> 31) == 0;
}

// Of `values`, rows of `width`, the first that holds one that is not finite; none: all are.
std::optional<size_t> find_not_finite_row(std::span<const float> values, size_t width) {
  for (size_t begin = 0; begin < values.size(); begin += width) {
    if (!are_finite(values.subspan(begin, width))) return begin / width;
  }
  return std::nullopt;
}

// The same of scales, rows of `width`, and of bases where the format has any.
std::optional<size_t> find_not_finite_row(const CodedRows& rows, size_t width, bool has_bases) {
  for (size_t begin = 0; begin < rows.scales.size(); begin += width) {
    const bool are_good = are_finite(rows.scales.subspan(begin, width)) &&
                          (!has_bases || are_finite(rows.bases.subspan(begin, width)));
    if (!are_good) return begin / width;
  }
  return std::nullopt;
}

}  // namespace

std::string ExpertNames::tensor(size_t expert, const std::string& name) const {
  return fmt::format("{}experts.{}.{}", prefix, expert, name);
}

std::string ExpertNames::any(const std::string& name) const {
  return fmt::format("{}experts.*.{}", prefix, name);
}

std::vector<float> WeightLoader::vector(const std::string& name) {
  const TensorInfo& tensor = find(name);
  std::vector<float> values(static_cast<size_t>(tensor.shape[0]));
  source_.read_rows(tensor, 0, 1, values);
  if (!error_ && options_.format.quantization && !are_finite(values)) {
    error_ = not_finite_error({{&tensor}}, 0);
  }
  count_tensor();
  return values;
}

Result<WeightMatrix> WeightLoader::head(const std::string& name) {
  const MatrixFormat format =
      options_.coded != nullptr ? options_.coded->format_of_head() : options_.format.of_head();
  return stacked({name}, format, feedback_of(format, {MatrixKind::kHead}));
}

Result<WeightMatrix> WeightLoader::stacked(
    const std::vector<std::string>& names, const MatrixPlace& place
) {
  const MatrixFormat format = format_of(names.front());
  return stacked(names, format, feedback_of(format, place));
}

Result<WeightMatrix> WeightLoader::stacked(
    const std::vector<std::string>& names, MatrixFormat format
) {
  return stacked(names, format, std::nullopt);
}

Result<WeightMatrix> WeightLoader::embedding(const std::string& name) {
  if (options_.coded == nullptr || !options_.coded->format_of_embedding()) {
    return unquantized({name});
  }
  return stacked({name}, *options_.coded->format_of_embedding());
}

Result<WeightMatrix> WeightLoader::unquantized(const std::vector<std::string>& names) {
  return stacked(names, options_.format.of_embedding());
}

Result<WeightMatrix> WeightLoader::expert_parts(
    const ExpertNames& experts, const std::string& name
) {
  const TensorInfo& first = find(experts.tensor(0, name));
  const size_t num_panels = div_ceil(num_rows_of(first), kPanelRows);
  Result<WeightMatrix> packed = allocate_parts(experts.num_experts, num_panels, first);
  if (!packed) return packed;
  for (size_t expert = 0; expert < experts.num_experts; ++expert) {
    const PanelPlaces places = {.first = expert * num_panels, .step = 1};
    const Result<void> filled = fill(*packed, {experts.tensor(expert, name)}, places, {});
    if (!filled) return filled.error();
  }
  return whole(*std::move(packed), {experts.any(name)});
}

Result<WeightMatrix> WeightLoader::alternating_expert_parts(
    const ExpertNames& experts, const std::string& even, const std::string& odd
) {
  std::vector<Pair> pairs;
  for (size_t expert = 0; expert < experts.num_experts; ++expert) {
    pairs.push_back({experts.tensor(expert, even), experts.tensor(expert, odd)});
  }
  return alternating(pairs, {experts.any(even), experts.any(odd)}, {});
}

Result<WeightMatrix> WeightLoader::alternating(
    const std::string& even, const std::string& odd, const MatrixPlace& place
) {
  return alternating({{even, odd}}, {even, odd}, feedback_of(format_of(even), place));
}

Result<WeightMatrix> WeightLoader::alternating(
    const std::vector<Pair>& pairs,
    const std::vector<std::string>& shown,
    const std::optional<ErrorFeedback>& feedback
) {
  const TensorInfo& first = find(pairs.front().even);
  const size_t num_panels = 2 * div_ceil(num_rows_of(first), kPanelRows);
  Result<WeightMatrix> packed = allocate_parts(pairs.size(), num_panels, first);
  if (!packed) return packed;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const size_t begin = i * num_panels;
    Result<void> filled = fill(*packed, {pairs[i].even}, {.first = begin, .step = 2}, feedback);
    if (filled) filled = fill(*packed, {pairs[i].odd}, {.first = begin + 1, .step = 2}, feedback);
    if (!filled) return filled.error();
  }
  return whole(*std::move(packed), shown);
}

Result<WeightMatrix> WeightLoader::allocate_parts(
    size_t num_parts, size_t part_panels, const TensorInfo& like
) const {
  const size_t num_rows = num_parts * part_panels * kPanelRows;
  const auto num_columns = static_cast<size_t>(like.shape[1]);
  return WeightMatrix::allocate(format_of(like.name), num_rows, num_columns);
}

MatrixFormat WeightLoader::format_of(const std::string& name) const {
  const WeightFormat& format = options_.format;
  return options_.coded != nullptr ? options_.coded->format_of(name, format.dtype)
                                   : format.of_layers();
}

std::optional<ErrorFeedback> WeightLoader::feedback_of(
    MatrixFormat format, const MatrixPlace& place
) const {
  const bool is_quantized = std::holds_alternative<QuantizedFormat>(format);
  if (!is_quantized || !options_.feedback) return std::nullopt;
  return options_.feedback(place);
}

Result<WeightMatrix> WeightLoader::stacked(
    const std::vector<std::string>& names,
    MatrixFormat format,
    const std::optional<ErrorFeedback>& feedback
) {
  size_t num_rows = 0;
  for (const std::string& name : names) num_rows += num_rows_of(find(name));
  Result<WeightMatrix> packed = WeightMatrix::allocate(format, num_rows, num_columns_of(names[0]));
  if (!packed) return packed;
  const Result<void> filled = fill(*packed, names, {.first = 0, .step = 1}, feedback);
  if (!filled) return filled.error();
  return whole(*std::move(packed), names);
}

Result<void> WeightLoader::fill(
    WeightMatrix& packed,
    const std::vector<std::string>& names,
    PanelPlaces places,
    const std::optional<ErrorFeedback>& feedback
) {
  std::vector<const TensorInfo*> tensors;
  size_t num_rows = 0;
  for (const std::string& name : names) {
    tensors.push_back(&find(name));
    num_rows += num_rows_of(*tensors.back());
  }
  std::atomic<size_t> first_bad_row = SIZE_MAX;  // the same with any number of threads
  pool_.parallel_for(div_ceil(num_rows, kPanelRows), [&](size_t begin, size_t end) {
    PanelRows rows = {.num_columns = packed.num_columns()};
    for (size_t panel = begin; panel < end; ++panel) {
      const size_t place = places.first + panel * places.step;
      const StackedRows from = {.tensors = tensors, .row = panel * kPanelRows};
      const std::optional<size_t> bad_row = fill_panel(packed, place, from, feedback, rows);
      if (!bad_row) continue;
      size_t least = first_bad_row;
      while (*bad_row < least && !first_bad_row.compare_exchange_weak(least, *bad_row)) {
      }
      break;
    }
  });
  if (first_bad_row != SIZE_MAX) return not_finite_error(tensors, first_bad_row);
  for (size_t i = 0; i < names.size(); ++i) count_tensor();
  return {};
}

std::optional<size_t> WeightLoader::fill_panel(
    WeightMatrix& packed,
    size_t place,
    const StackedRows& from,
    const std::optional<ErrorFeedback>& feedback,
    PanelRows& rows
) const {
  QuantizedMatrix* const matrix = packed.quantized();
  if (matrix != nullptr && are_codes(matrix->format())) {
    const CodeFormat format = *code_format(matrix->format());
    const CodedRows codes = read_stacked_codes(from, format.num_inputs, rows);
    const size_t num_scales = div_ceil(rows.num_columns, format.num_inputs);
    const auto bad_row = find_not_finite_row(codes, num_scales, format.has_bases);
    if (bad_row) return from.row + *bad_row;
    matrix->pack_codes(place, codes);
    return std::nullopt;
  }
  const std::span<const float> values = read_stacked_rows(from, rows);
  // Rounding makes numbers of what is none. What is kept as it is fails where it is used; of a
  // quantized model that may be long after it was written.
  if (matrix != nullptr || options_.format.quantization) {
    const std::optional<size_t> bad_row = find_not_finite_row(values, rows.num_columns);
    if (bad_row) return from.row + *bad_row;
  }
  if (feedback) {
    packed.pack_panel(place, values, *feedback);
  } else {
    packed.pack_panel(place, values);
  }
  return std::nullopt;
}

Error WeightLoader::not_finite_error(std::span<const TensorInfo* const> tensors, size_t row) {
  size_t index = 0;
  while (row >= num_rows_of(*tensors[index])) row -= num_rows_of(*tensors[index++]);
  const std::string& name = tensors[index]->name;
  return invalid_argument(
      fmt::format("tensor '{}' holds a value that is not finite, in row {}", printable(name), row),
      printable(name)
  );
}

Result<WeightMatrix> WeightLoader::whole(
    WeightMatrix matrix, const std::vector<std::string>& names
) {
  if (matrix.holds_all_weights()) return matrix;
  const PackedMatrix& packed = *matrix.packed();
  std::string tensors = names.front();
  for (size_t i = 1; i < names.size(); ++i) tensors += ", " + names[i];
  return unsupported(
      fmt::format(
          "{}: {} of {} weights are of magnitudes that are rare in their rows, and bfloat16 "
          "matrices have room for {} of those; load them as float16 or float32, or quantized",
          tensors,
          packed.num_exceptions(),
          matrix.num_rows() * matrix.num_columns(),
          PackedMatrix::num_exceptions_max(matrix.num_rows(), matrix.num_columns())
      ),
      names.front()
  );
}

template <class Read>
size_t WeightLoader::for_stacked_rows(const StackedRows& from, const Read& read) {
  size_t row = from.row;
  size_t count = 0;
  for (const TensorInfo* tensor : from.tensors) {
    const size_t num_rows = num_rows_of(*tensor);
    if (row >= num_rows) {
      row -= num_rows;
      continue;
    }
    const size_t taken = std::min(num_rows - row, kPanelRows - count);
    read(*tensor, row, taken, count);
    count += taken;
    row = 0;
    if (count == kPanelRows) break;
  }
  return count;
}

std::span<const float> WeightLoader::read_stacked_rows(const StackedRows& from, PanelRows& to)
    const {
  const size_t width = to.num_columns;
  to.values.resize(kPanelRows * width);
  const std::span<float> values = to.values;
  const auto read = [&](const TensorInfo& tensor, size_t first, size_t taken, size_t place) {
    source_.read_rows(
        tensor,
        static_cast<int64_t>(first),
        static_cast<int64_t>(taken),
        values.subspan(place * width, taken * width)
    );
  };
  return values.first(for_stacked_rows(from, read) * width);
}

CodedRows WeightLoader::read_stacked_codes(
    const StackedRows& from, size_t num_inputs, PanelRows& to
) const {
  const size_t width = to.num_columns;
  const size_t num_scales = div_ceil(width, num_inputs);
  to.codes.resize(kPanelRows * width);
  to.scales.resize(kPanelRows * num_scales);
  to.bases.resize(kPanelRows * num_scales);
  const auto read = [&](const TensorInfo& tensor, size_t first, size_t taken, size_t place) {
    const StoredCodes part = {
        .codes = std::span(to.codes).subspan(place * width, taken * width),
        .scales = std::span(to.scales).subspan(place * num_scales, taken * num_scales),
        .bases = std::span(to.bases).subspan(place * num_scales, taken * num_scales),
        .num_inputs = num_inputs,
    };
    source_.read_codes(tensor, static_cast<int64_t>(first), static_cast<int64_t>(taken), part);
  };
  const size_t count = for_stacked_rows(from, read);
  return {
      .codes = std::span(to.codes).first(count * width),
      .scales = std::span(to.scales).first(count * num_scales),
      .bases = std::span(to.bases).first(count * num_scales),
  };
}

const TensorInfo& WeightLoader::find(const std::string& name) const {
  const TensorInfo* tensor = source_.find(name);
  CHECK(tensor != nullptr, "the tensor is among those that were checked");
  return *tensor;
}

size_t WeightLoader::num_rows_of(const TensorInfo& tensor) {
  return static_cast<size_t>(tensor.shape[0]);
}

size_t WeightLoader::num_columns_of(const std::string& name) const {
  return static_cast<size_t>(find(name).shape[1]);
}

void WeightLoader::count_tensor() {
  ++num_tensors_done_;
  if (options_.progress) options_.progress(num_tensors_done_, options_.num_tensors);
}

}  // namespace millrace
