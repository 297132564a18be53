#include "kernels/packed_bfloat16.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "base/math.h"
#include "kernels/bfloat16_rows_kernel.h"
#include "kernels/dispatch.h"
#include "kernels/pack_rows_kernel.h"

namespace millrace {
namespace {

constexpr size_t kRows = 16;
constexpr size_t kTableSize = 16;
constexpr size_t kBlockColumns = kPackedBlockColumns;
constexpr uint16_t kExponentBits = 0x7F80;
constexpr int kExponentShift = 7;
constexpr uint8_t kNotInTable = 0xFF;

size_t exponent_of(BFloat16 weight) {
  return (weight.bits & kExponentBits) >> kExponentShift;
}

using ExponentCounts = std::array<uint32_t, 256>;

// Eight counters for each exponent in turn: neighbours often have the same one, and adding to what
// was just written waits for it.
ExponentCounts count_exponents(std::span<const BFloat16> weights) {
  constexpr size_t kParts = 8;
  std::array<ExponentCounts, kParts> parts = {};
  size_t i = 0;
  for (; i + kParts <= weights.size(); i += kParts) {
    for (size_t j = 0; j < kParts; ++j) ++parts[j][exponent_of(weights[i + j])];
  }
  for (; i < weights.size(); ++i) ++parts[0][exponent_of(weights[i])];
  ExponentCounts counts = {};
  for (const ExponentCounts& part : parts) {
    for (size_t exponent = 0; exponent < counts.size(); ++exponent) {
      counts[exponent] += part[exponent];
    }
  }
  return counts;
}

struct ExponentTable {
  std::array<uint16_t, kTableSize> exponents = {};  // in place; the first is 0
  std::array<uint8_t, 256> codes;                   // of each exponent, or kNotInTable
  unsigned window = 1;  // the first of those side by side that have the most weights
};

ExponentTable choose_exponents(const ExponentCounts& counts) {
  std::vector<uint8_t> order;  // without 0, which is always there
  for (size_t exponent = 1; exponent < counts.size(); ++exponent) {
    if (counts[exponent] > 0) order.push_back(static_cast<uint8_t>(exponent));
  }
  const size_t num_chosen = std::min(order.size(), kTableSize - 1);
  std::partial_sort(
      order.begin(),
      order.begin() + static_cast<ptrdiff_t>(num_chosen),
      order.end(),
      [&](uint8_t a, uint8_t b) { return counts[a] != counts[b] ? counts[a] > counts[b] : a > b; }
  );
  order.resize(num_chosen);

  ExponentTable table;
  table.codes.fill(kNotInTable);
  table.codes[0] = 0;
  size_t most = 0;
  for (size_t i = 0; i < num_chosen; ++i) {
    table.exponents[i + 1] = static_cast<uint16_t>(order[i] << kExponentShift);
    table.codes[order[i]] = static_cast<uint8_t>(i + 1);
    const size_t last = std::max<size_t>(order[i], kExponentWindow);
    const size_t first = last - (kExponentWindow - 1);
    size_t covered = 0;
    for (const uint8_t exponent : order) {
      if (exponent >= first && exponent <= last) covered += counts[exponent];
    }
    if (covered > most) {
      most = covered;
      table.window = static_cast<unsigned>(first);
    }
  }
  return table;
}

struct Place {
  size_t code;  // byte offset of the uint16 with its number
  int code_shift;
  size_t rest;  // byte offset of its sign and mantissa
};

Place place_of(size_t row, size_t column) {
  const size_t block = kPackedTableBytes + column / kPackedBlockColumns * kPackedBlockBytes;
  const size_t pair = column % kPackedBlockColumns / 2;
  const size_t lane = row * 2 + column % 2;
  return {
      .code = block + lane * 2,
      .code_shift = static_cast<int>(4 * pair),
      .rest = block + kPackedCodeBytes + pair * kPackedPairBytes + lane,
  };
}

uint16_t read_u16(const uint8_t* p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

void put(BFloat16 weight, uint8_t code, const Place& place, std::span<uint8_t> panel) {
  panel[place.rest] = static_cast<uint8_t>((weight.bits >> 8 & 0x80) | (weight.bits & 0x7F));
  uint16_t codes = read_u16(&panel[place.code]);
  codes = static_cast<uint16_t>(codes | code << place.code_shift);
  std::memcpy(&panel[place.code], &codes, sizeof(codes));
}

// Rounded rows of a panel, padded to whole blocks and sixteen rows with zeros.
struct RoundedRows {
  std::unique_ptr<BFloat16[]> weights;  // [16][num_columns]
  size_t num_columns;

  std::span<const BFloat16> all() const { return {weights.get(), kRows * num_columns}; }
};

constexpr IsaVersions<void (*)(const float*, size_t, size_t, BFloat16*)> kRoundRow = {
    round_row_reference<BFloat16>, round_row_avx2<BFloat16>, round_row_avx512<BFloat16>};

RoundedRows round_rows(std::span<const float> rows, size_t num_columns, Isa isa) {
  RoundedRows rounded = {.weights = nullptr, .num_columns = round_up(num_columns, kBlockColumns)};
  rounded.weights = std::make_unique_for_overwrite<BFloat16[]>(kRows * rounded.num_columns);
  BFloat16* row = rounded.weights.get();
  for (size_t begin = 0; begin < rows.size(); begin += num_columns, row += rounded.num_columns) {
    kRoundRow.find(isa)(&rows[begin], num_columns, rounded.num_columns, row);
  }
  std::fill(row, rounded.weights.get() + kRows * rounded.num_columns, BFloat16{});
  return rounded;
}

// Leaves every block to pack_block().
void pack_no_blocks(const PackBlocksTask& task) {
  std::fill_n(task.is_packed, task.num_columns / kBlockColumns, uint8_t{0});
}

constexpr IsaVersions<void (*)(const PackBlocksTask&)> kPackBlocks = {
    pack_no_blocks, pack_blocks_avx2, pack_blocks_avx512};

PackBlocksTask blocks_task(
    const RoundedRows& rows,
    const ExponentTable& table,
    std::span<uint8_t> panel,
    std::vector<uint8_t>& is_packed
) {
  PackBlocksTask task = {
      .rows = rows.weights.get(),
      .num_columns = rows.num_columns,
      .table = panel.data(),
      .first_exponent = table.window,
      .codes = {},
      .blocks = &panel[kPackedTableBytes],
      .is_packed = is_packed.data(),
  };
  for (size_t i = 0; i < kExponentWindow; ++i) {
    const uint8_t code = table.codes[task.first_exponent + i];
    if (code != kNotInTable) task.codes[i] = code;
  }
  return task;
}

// One block, of any weights.
void pack_block(
    const RoundedRows& rows,
    size_t block,
    const ExponentTable& table,
    std::span<uint8_t> panel,
    std::vector<WeightException>& exceptions
) {
  std::ranges::fill(
      panel.subspan(kPackedTableBytes + block * kPackedBlockBytes, kPackedBlockBytes), uint8_t{0}
  );
  for (size_t column = block * kBlockColumns; column < (block + 1) * kBlockColumns; ++column) {
    for (size_t row = 0; row < kRows; ++row) {
      const BFloat16 weight = rows.weights[row * rows.num_columns + column];
      const uint8_t code = table.codes[exponent_of(weight)];
      if (code != kNotInTable) {
        put(weight, code, place_of(row, column), panel);
      } else {
        exceptions.push_back(
            {static_cast<uint32_t>(column), static_cast<uint16_t>(row), weight.bits}
        );
      }
    }
  }
}

std::vector<WeightException> pack_blocks(
    const RoundedRows& rows, const ExponentTable& table, std::span<uint8_t> panel, Isa isa
) {
  std::memcpy(panel.data(), table.exponents.data(), kPackedTableBytes / 2);
  std::memcpy(&panel[kPackedTableBytes / 2], table.exponents.data(), kPackedTableBytes / 2);

  const size_t num_blocks = rows.num_columns / kBlockColumns;
  std::vector<uint8_t> is_packed(num_blocks);
  kPackBlocks.find(isa)(blocks_task(rows, table, panel, is_packed));
  std::vector<WeightException> exceptions;
  for (size_t block = 0; block < num_blocks; ++block) {
    if (is_packed[block] == 0) pack_block(rows, block, table, panel, exceptions);
  }
  return exceptions;
}

size_t whole_place_of(size_t row, size_t column) {
  return column / 2 * kWholePairBytes + (row * 2 + column % 2) * sizeof(BFloat16);
}

// Of the panel's weights those that the table lacks.
std::vector<WeightException> find_exceptions(const RoundedRows& rows, const ExponentTable& table) {
  std::vector<WeightException> exceptions;
  for (size_t column = 0; column < rows.num_columns; ++column) {
    for (size_t row = 0; row < kRows; ++row) {
      const BFloat16 weight = rows.weights[row * rows.num_columns + column];
      if (table.codes[exponent_of(weight)] != kNotInTable) continue;
      exceptions.push_back({static_cast<uint32_t>(column), static_cast<uint16_t>(row), weight.bits}
      );
    }
  }
  return exceptions;
}

std::vector<WeightException> keep_whole(
    const RoundedRows& rows, const ExponentTable& table, std::span<uint8_t> panel
) {
  constexpr size_t kBytesOfRow = 2 * sizeof(BFloat16);  // a pair's
  for (size_t column = 0; column < rows.num_columns; column += 2) {
    uint8_t* const pair = &panel[whole_place_of(0, column)];
    for (size_t row = 0; row < kRows; ++row) {
      const BFloat16* const both = &rows.weights[row * rows.num_columns + column];
      std::memcpy(pair + row * kBytesOfRow, both, kBytesOfRow);
    }
  }
  std::vector<WeightException> exceptions = find_exceptions(rows, table);
  for (const WeightException& exception : exceptions) {
    std::memset(&panel[whole_place_of(exception.row, exception.column)], 0, sizeof(BFloat16));
  }
  return exceptions;
}

BFloat16 packed_weight(const uint8_t* panel, size_t row, size_t column) {
  const Place place = place_of(row, column);
  const size_t code = read_u16(panel + place.code) >> place.code_shift & 0xF;
  const uint16_t exponent = read_u16(panel + 2 * code);
  const unsigned rest = panel[place.rest];
  return {static_cast<uint16_t>((rest & 0x80) << 8 | exponent | (rest & 0x7F))};
}

}  // namespace

BFloat16Panels best_bfloat16_panels() {
  return prefers_whole_bfloat16() ? BFloat16Panels::kWhole : BFloat16Panels::kPacked;
}

std::vector<WeightException> pack_bfloat16_panel(
    BFloat16Panels panels,
    std::span<const float> rows,
    size_t num_columns,
    std::span<uint8_t> panel,
    Isa isa
) {
  CHECK(panel.size() == bfloat16_panel_bytes(panels, num_columns), "a panel's bytes");
  CHECK(rows.size() % num_columns == 0 && rows.size() <= kRows * num_columns, "at most 16 rows");
  const RoundedRows rounded = round_rows(rows, num_columns, isa);
  const ExponentTable table = choose_exponents(count_exponents(rounded.all()));
  return panels == BFloat16Panels::kWhole ? keep_whole(rounded, table, panel)
                                          : pack_blocks(rounded, table, panel, isa);
}

BFloat16 bfloat16_panel_weight(
    BFloat16Panels panels, const uint8_t* panel, size_t row, size_t column
) {
  if (panels == BFloat16Panels::kWhole) return {read_u16(panel + whole_place_of(row, column))};
  return packed_weight(panel, row, column);
}

}  // namespace millrace
