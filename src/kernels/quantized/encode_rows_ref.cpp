#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/lanes.h"
#include "kernels/quantized/encode_rows_kernel.h"

namespace millrace {
namespace {

constexpr size_t kGroup = 64;

// What Lanes::max and Lanes::min do: the second where either is no number.
float larger(float a, float b) {
  return a > b ? a : b;
}
float smaller(float a, float b) {
  return a < b ? a : b;
}

struct Rounded {
  uint8_t byte;
  int value;
};

// What is no number becomes a byte, too: its group's scale is none.
Rounded round_to_int8(float value) {
  const float shifted = smaller(larger(value, -127.0F), 127.0F) + kRoundingShift;
  const auto byte = static_cast<uint8_t>(std::bit_cast<uint32_t>(shifted));
  return {byte, static_cast<int>(shifted - kRoundingShift)};
}

// Of a small integer; of what is no number, any.
unsigned char byte_of(float value) {
  return static_cast<unsigned char>(std::bit_cast<uint32_t>(value + kRoundingShift));
}

// The integer of 16 bits in its place of a group's words; of what is no number, any.
void put_word(unsigned char* words, size_t input, float number) {
  const auto word = static_cast<uint16_t>(std::bit_cast<uint32_t>(number + kRoundingShift));
  const size_t place = input / 4 * 4 + kTilePlaces[input % 4];
  std::memcpy(words + place * sizeof word, &word, sizeof word);
}

// The integer of 16 bits in two bytes, of which the upper one is the nearest that leaves a lower
// one of -128 to 127; or in a word.
void put_number(bool in_words, unsigned char* values, size_t input, float number) {
  if (in_words) return put_word(values, input, number);
  const float upper = std::floor((number + 128.0F) / 256.0F);
  values[input] = byte_of(upper);
  values[kGroup + input] = byte_of(number - 256.0F * upper);
}

// The nearest integer.
float nearest(float value) {
  return (value + kRoundingShift) - kRoundingShift;
}

// Of what is no number any: its scale is none.
int32_t start_of(float sum) {
  return std::isnan(sum) ? 0 : -(static_cast<int32_t>(sum) * (1 << kStartBits));
}

// A group whose largest magnitude, or its row's, is `peak`, in 8 bits: its values. Returns its
// start.
int32_t encode_group_reference(
    const EncodeTask& task, const float* x, float peak, unsigned char* values
) {
  const float inverse = 127.0F / peak;
  int sum = 0;
  for (size_t i = 0; i < kGroup; ++i) {
    const Rounded rounded = round_to_int8(x[i] * inverse);
    if (task.in_words) {
      put_word(values, i, static_cast<float>(rounded.value));
    } else {
      values[i] = rounded.byte;
    }
    sum += rounded.value;
  }
  return kSumStart - task.weight_zero * sum;
}

// The same in 16 bits.
int32_t encode_numbers_reference(bool in_words, const float* x, float peak, unsigned char* values) {
  const float inverse = kNumberPeak / peak;
  float sum = 0.0F;
  for (size_t i = 0; i < kGroup; ++i) {
    const float number = nearest(x[i] * inverse);
    put_number(in_words, values, i, number);
    sum += number;
  }
  return start_of(sum);
}

// A group with a scale of its own in 16 bits.
CodedInputs encode_coded_group_reference(
    bool in_words, const float* x, float peak, unsigned char* values
) {
  CodedInputs coded = {.scale = peak * (1.0F / kNumberPeak)};
  float quarters[4] = {};
  const float inverse = kNumberPeak / peak;
  for (size_t i = 0; i < kGroup; ++i) {
    const float number = nearest(x[i] * inverse);
    put_number(in_words, values, i, number);
    quarters[i / (kGroup / 4)] += number;
  }
  for (size_t half = 0; half < 2; ++half) {
    const float sum = quarters[2 * half] + quarters[2 * half + 1];
    coded.half_sums[half] = sum;
  }
  for (size_t i = 0; i < 4; ++i) coded.starts[i] = start_of(quarters[i]);
  coded.sum = coded.half_sums[0] + coded.half_sums[1];
  coded.scale += 0.0F * coded.sum;  // none where an input is infinite
  return coded;
}

// Inputs [begin, begin + rotation) of row `row`, zeros past its end, rotated. `block`:
// [kRotationMax].
void load_rotated(const RowsToRotate& rows, size_t row, size_t begin, float* block) {
  const float* x = rows.x + row * rows.stride;
  std::fill_n(block, kRotationMax, 0.0F);
  const size_t end = std::min(begin + rows.rotation, rows.num_inputs);
  for (size_t i = begin; i < end; ++i) block[i - begin] = x[i];
  if (rows.is_rotated) rotate_reference(block, rows.rotation);
}

// The larger of two magnitudes; what is no number is the largest.
float larger_magnitude(float a, float b) {
  return std::bit_cast<float>(
      std::max(std::bit_cast<uint32_t>(std::fabs(a)), std::bit_cast<uint32_t>(std::fabs(b)))
  );
}

// Of a group, and at least kLeastPeak.
float largest_magnitude(const float* x) {
  float peak = kLeastPeak;
  for (size_t i = 0; i < kGroup; ++i) peak = larger_magnitude(peak, x[i]);
  return peak;
}

}  // namespace

void rotate_reference(float* block, size_t size) {
  for (size_t step = size / 2; step >= 1; step /= 2) {
    for (size_t begin = 0; begin < size; begin += 2 * step) {
      for (size_t i = begin; i < begin + step; ++i) {
        const float a = block[i];
        const float b = block[i + step];
        block[i] = a + b;
        block[i + step] = a - b;
      }
    }
  }
}

void encode_rows_reference(const EncodeTask& task, size_t row_begin, size_t row_end) {
  const RowsToRotate& rows = task.rows;
  const bool are_numbers = task.rounding == InputRounding::kTwoTerms;
  for (size_t row = row_begin; row < row_end; ++row) {
    unsigned char* const of_groups = task.out + row * task.out_stride;
    unsigned char* const starts = of_groups + rows.num_groups * task.value_bytes;
    unsigned char* const scales = starts + rows.num_groups * sizeof(int32_t);
    const auto for_groups = [&](const auto& function) {
      for (size_t begin = 0; begin < rows.num_groups * kGroup; begin += rows.rotation) {
        float block[kRotationMax];
        load_rotated(rows, row, begin, block);
        for (size_t i = 0; i < rows.rotation; i += kGroup)
          function((begin + i) / kGroup, block + i);
      }
    };
    float row_peak = kLeastPeak;
    for_groups([&](size_t, const float* x) {
      row_peak = larger_magnitude(row_peak, largest_magnitude(x));
    });
    for_groups([&](size_t group, const float* x) {
      unsigned char* const values = of_groups + group * task.value_bytes;
      if (task.rounding == InputRounding::kUnrotated) {
        const CodedInputs coded =
            encode_coded_group_reference(task.in_words, x, largest_magnitude(x), values);
        std::memcpy(starts + group * sizeof coded, &coded, sizeof coded);
        return;
      }
      const bool is_of_row = has_row_scales(task.rounding);
      const float peak = is_of_row ? row_peak : largest_magnitude(x);
      const int32_t start = are_numbers ? encode_numbers_reference(task.in_words, x, peak, values)
                                        : encode_group_reference(task, x, peak, values);
      std::memcpy(starts + group * sizeof start, &start, sizeof start);
      const float scale = peak * (1.0F / (are_numbers ? kNumberPeak : 127.0F));
      std::memcpy(scales + (is_of_row ? 0 : group) * sizeof scale, &scale, sizeof scale);
    });
  }
}

void encode_to_tiles_reference(const ByteTilesTask& task, size_t row_begin, size_t row_end) {
  const RowsToRotate& rows = task.rows;
  const size_t num_columns = rows.num_groups * kGroup;
  for (size_t row = row_begin; row < row_end; ++row) {
    const auto for_inputs = [&](const auto& function) {
      for (size_t begin = 0; begin < num_columns; begin += rows.rotation) {
        float block[kRotationMax];
        load_rotated(rows, row, begin, block);
        for (size_t i = 0; i < rows.rotation; ++i) function(begin + i, block[i]);
      }
    };
    float peak = kLeastPeak;
    for_inputs([&](size_t, float value) { peak = larger_magnitude(peak, value); });
    int32_t sum = 0;
    const float inverse = 127.0F / peak;
    for_inputs([&](size_t input, float value) {
      const size_t tile = row / 16 * rows.num_groups * 16 + input / kGroup * task.tile_rows;
      const Rounded rounded = round_to_int8(value * inverse);
      task.tiles[(tile + row % 16) * kGroup + input % kGroup] = rounded.byte;
      sum += rounded.value;
    });
    task.encoded[row] = {.scale = peak * (1.0F / 127.0F), .sum = sum};
  }
}

void write_rotated_tiles_reference(const RotatedTilesTask& task, size_t row_begin, size_t row_end) {
  constexpr size_t kTileColumns = 32;
  const RowsToRotate& rows = task.rows;
  const size_t num_columns = rows.num_groups * kGroup;
  for (size_t row = row_begin; row < row_end; ++row) {
    BFloat16* row_of_tiles = task.tiles + row / 16 * 16 * num_columns;
    for (size_t begin = 0; begin < num_columns; begin += rows.rotation) {
      float block[kRotationMax];
      load_rotated(rows, row, begin, block);
      for (size_t i = 0; i < rows.rotation; ++i) {
        const size_t tile = (begin + i) / kTileColumns;
        const size_t place = i % kTileColumns / 4 * 4 + kTilePlaces[i % 4];
        row_of_tiles[(tile * task.tile_rows + row % 16) * kTileColumns + place] =
            to_bfloat16(block[i]);
      }
    }
  }
}

}  // namespace millrace
