#include "base/check.h"
#include "cuda/kernels/candidate.cuh"
#include "cuda/kernels/draw.h"
#include "cuda/kernels/launch_limits.h"

namespace millrace::cuda {
namespace {

constexpr uint32_t kThreads = 1024;
constexpr uint32_t kWarps = kThreads / kWarpThreads;
constexpr uint32_t kBins = 256;
constexpr uint32_t kBinBits = 8;
constexpr uint32_t kBinThreads = kThreads / kBins;

struct Sum {
  uint64_t mass = 0;
  uint32_t count = 0;
};

// The bin that was looked for, and all bins before it.
struct Place {
  Sum before;
  Sum inside;
  uint32_t bin = 0;
};

// What the threads of a block share.
struct Memory {
  uint64_t* masses;       // [kBins]
  Place* place;           // [1]
  Candidate* candidates;  // [kWarps]
  uint32_t* counts;       // [kBins]

  static constexpr size_t kPlaceAt = kBins * sizeof(uint64_t);
  static constexpr size_t kCandidatesAt = kPlaceAt + sizeof(Place);
  static constexpr size_t kCountsAt = kCandidatesAt + kWarps * sizeof(Candidate);
  static constexpr size_t kNumBytes = kCountsAt + kBins * sizeof(uint32_t);

  __device__ static Memory of_block() {
    return {
        dynamic_shared<uint64_t>(0, kBins),
        dynamic_shared<Place>(kPlaceAt, 1),
        dynamic_shared<Candidate>(kCandidatesAt, kWarps),
        dynamic_shared<uint32_t>(kCountsAt, kBins)};
  }

  // Ends with a barrier: every bin is empty.
  __device__ void clear() const {
    sync_block();  // what was there has been read
    if (threadIdx.x < kBins) {
      masses[threadIdx.x] = 0;
      counts[threadIdx.x] = 0;
    }
    sync_block();
  }

  __device__ void add(uint32_t bin, const Sum& sum) const {
    if (sum.mass > 0) add_to_shared(masses + bin, sum.mass);
    if (sum.count > 0) add_to_shared(counts + bin, sum.count);
  }

  __device__ Sum sum_before(uint32_t bin) const {
    Sum sum;
    for (uint32_t i = 0; i < bin; ++i) {
      sum.mass += masses[i];
      sum.count += counts[i];
    }
    return sum;
  }

  // The one bin for which is_there(before, inside). Every thread gets it.
  template <class IsThere>
  __device__ Place find(const IsThere& is_there) const {
    sync_block();  // everything has been added
    if (threadIdx.x < kBins) {
      const Sum inside = {masses[threadIdx.x], counts[threadIdx.x]};
      const Sum before = sum_before(threadIdx.x);
      if (is_there(before, inside)) *place = {before, inside, threadIdx.x};
    }
    sync_block();
    return *place;
  }
};

// A row with its candidates' masses.
struct Row {
  const float* logits;
  uint32_t size;
  float highest;
  float temperature;
  float weight_min;

  // 0: no candidate.
  __device__ uint64_t mass(float logit) const {
    const float weight = exponential((logit - highest) / temperature);
    return weight >= weight_min ? static_cast<uint64_t>(weight * kMassOfBest) : 0;
  }
};

// In the order of the values, -0 and 0 the same; not 0 for any number.
__device__ uint32_t key_of(float value) {
  const uint32_t bits = bits_from_float(value + 0.0F);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// What is kept: the candidates whose key is larger, and of those with this one the first `num_ties`
// by id.
struct Cut {
  uint32_t key = 0;
  uint32_t num_ties = 0;
  uint64_t tie_mass = 0;  // of each
  uint64_t mass = 0;      // of all that is kept
};

__device__ Sum sum_of_candidates(const Row& row, const Memory& memory) {
  Sum mine;
  for (uint32_t id = threadIdx.x; id < row.size; id += kThreads) {
    const uint64_t mass = row.mass(row.logits[id]);
    mine.mass += mass;
    mine.count += mass > 0 ? 1 : 0;
  }
  memory.clear();
  memory.add(0, mine);
  sync_block();
  return {memory.masses[0], memory.counts[0]};
}

// Candidates by the byte of their keys at `shift`, the best first; of those whose keys begin with
// `prefix`.
__device__ void sort_into_bins(
    const Row& row, uint32_t shift, uint32_t prefix, const Memory& memory
) {
  memory.clear();
  for (uint32_t id = threadIdx.x; id < row.size; id += kThreads) {
    const float logit = row.logits[id];
    const uint32_t key = key_of(logit) >> shift;
    if (key >> kBinBits != prefix) continue;
    const uint64_t mass = row.mass(logit);
    if (mass > 0) memory.add(kBins - 1 - key % kBins, {mass, 1});
  }
}

enum class Measure { kCount, kMass };

// The fewest best candidates whose number, or mass, is `wanted` or more.
// REQUIRES: 0 < wanted <= what all candidates have together.
__device__ Cut cut_at(const Row& row, Measure measure, uint64_t wanted, const Memory& memory) {
  const auto measured = [measure](const Sum& sum) {
    return measure == Measure::kCount ? sum.count : sum.mass;
  };
  uint32_t key = 0;
  uint64_t mass_above = 0;
  Sum ties;
  for (uint32_t shift = 32; shift > 0;) {
    shift -= kBinBits;
    sort_into_bins(row, shift, key, memory);
    const Place place = memory.find([&](const Sum& before, const Sum& inside) {
      return measured(before) < wanted && measured(before) + measured(inside) >= wanted;
    });
    key = key << kBinBits | (kBins - 1 - place.bin);
    wanted -= measured(place.before);
    mass_above += place.before.mass;
    ties = place.inside;
  }
  const uint64_t tie_mass = ties.mass / ties.count;  // of one key, so of one mass
  const uint64_t num_ties =
      measure == Measure::kCount ? wanted : (wanted + tie_mass - 1) / tie_mass;
  return {key, static_cast<uint32_t>(num_ties), tie_mass, mass_above + num_ties * tie_mass};
}

__device__ uint64_t smaller_mass(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

// nucleus_mass() and draw_place() of exact_draw.h.
__device__ uint64_t mass_of_nucleus(float top_p, uint64_t total) {
  const double share = static_cast<double>(top_p) * static_cast<double>(total);
  const uint64_t mass = smaller_mass(static_cast<uint64_t>(share), total);
  return mass > 0 ? mass : 1;
}
__device__ uint64_t place_of_draw(double unit, uint64_t total) {
  return smaller_mass(static_cast<uint64_t>(unit * static_cast<double>(total)), total - 1);
}

__device__ Cut cut_of(const Row& row, const DrawRow& draw, const Memory& memory) {
  const Sum all = sum_of_candidates(row, memory);
  Cut cut = {.mass = all.mass};
  if (draw.top_k > 0 && static_cast<uint32_t>(draw.top_k) < all.count) {
    cut = cut_at(row, Measure::kCount, static_cast<uint64_t>(draw.top_k), memory);
  }
  if (draw.top_p < 1.0F) {
    // The nucleus lies within the top k, so it can be looked for among all.
    cut = cut_at(row, Measure::kMass, mass_of_nucleus(draw.top_p, cut.mass), memory);
  }
  return cut;
}

// Mass above the cut and ties at it of each of kBins ranges of ids, `width` each, from `first` on.
// Neighbours of a few threads have a range together.
__device__ void add_ranges(
    const Row& row,
    const Cut& cut,
    uint32_t first,
    uint32_t length,
    uint32_t width,
    const Memory& memory
) {
  memory.clear();
  const uint32_t bin = threadIdx.x / kBinThreads;
  const uint32_t begin = bin * width;
  const uint32_t end = begin + width < length ? begin + width : length;
  Sum sum;
  for (uint32_t i = begin + threadIdx.x % kBinThreads; i < end; i += kBinThreads) {
    const float logit = row.logits[first + i];
    const uint32_t key = key_of(logit);
    if (key < cut.key) continue;
    const uint64_t mass = row.mass(logit);
    if (key == cut.key) {
      sum.count += mass > 0 ? 1 : 0;
    } else {
      sum.mass += mass;
    }
  }
  memory.add(bin, sum);
}

// The first token, by id, with which the mass of those kept exceeds `place`: in ranges of ids, and
// ranges of the range it is in. REQUIRES: place < cut.mass.
__device__ uint32_t token_at(const Row& row, const Cut& cut, uint64_t place, const Memory& memory) {
  uint32_t num_ties = cut.num_ties;
  const auto kept_mass = [&](uint64_t mass_above, uint32_t count) {
    return mass_above + (count < num_ties ? count : num_ties) * cut.tie_mass;
  };
  uint32_t first = 0;
  uint32_t length = row.size;
  while (length > 1) {
    const uint32_t width = (length + kBins - 1) / kBins;
    add_ranges(row, cut, first, length, width, memory);
    const Place range = memory.find([&](const Sum& before, const Sum& inside) {
      return kept_mass(before.mass, before.count) <= place &&
             kept_mass(before.mass + inside.mass, before.count + inside.count) > place;
    });
    place -= kept_mass(range.before.mass, range.before.count);
    num_ties -= range.before.count < num_ties ? range.before.count : num_ties;
    first += range.bin * width;
    length = length - range.bin * width < width ? length - range.bin * width : width;
  }
  return first;
}

// The first of the largest; nothing (kNoId) where a logit is NaN or infinite.
__device__ Candidate best_of(const float* logits, uint32_t size, const Memory& memory) {
  Candidate mine;
  uint32_t num_bad = 0;
  const auto take = [&](float value, uint32_t id) {
    if (!(fabsf(value) <= kLargestFloat)) ++num_bad;
    if (value > mine.value) mine = {value, id};
  };
  // A row is read by one block: what counts is how much of it is on its way.
  constexpr uint32_t kWordsAtOnce = 4;
  constexpr uint32_t kStretch = kThreads * kWordsAtOnce * 4;
  const bool is_whole = reinterpret_cast<uintptr_t>(logits) % sizeof(Words4) == 0;
  const uint32_t num_whole = is_whole ? size / kStretch * kStretch : 0;
  for (uint32_t first = 0; first < num_whole; first += kStretch) {
    Words4 loaded[kWordsAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kWordsAtOnce; ++i) {
      loaded[i] = load_words(logits + first + (i * kThreads + threadIdx.x) * 4);
    }
#pragma unroll
    for (uint32_t i = 0; i < kWordsAtOnce * 4; ++i) {
      const uint32_t id = first + (i / 4 * kThreads + threadIdx.x) * 4 + i % 4;
      take(float_from_bits(loaded[i / 4].words[i % 4]), id);
    }
  }
  for (uint32_t id = num_whole + threadIdx.x; id < size; id += kThreads) take(logits[id], id);
  memory.clear();
  memory.add(0, {0, num_bad});
  const Candidate best = first_of_block(mine, memory.candidates);
  return memory.counts[0] == 0 ? best : Candidate{};
}

// Grid: draws.
__global__ void __launch_bounds__(kThreads) draw_kernel(DrawArgs args) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const Memory memory = Memory::of_block();
  const DrawRow draw = args.rows[blockIdx.x];
  const float* const logits = args.logits + static_cast<size_t>(draw.row) * args.num_columns;
  const auto size = static_cast<uint32_t>(args.num_columns);
  const Candidate best = best_of(logits, size, memory);
  uint32_t id = best.id;
  if (id != kNoId && draw.temperature > 0.0F) {
    const Row row = {logits, size, best.value, draw.temperature, larger(draw.min_p, kWeightMin)};
    const Cut cut = cut_of(row, draw, memory);
    const double unit = double_from_words(draw.unit_words[0], draw.unit_words[1]);
    id = token_at(row, cut, place_of_draw(unit, cut.mass), memory);
  }
  if (threadIdx.x != 0) return;
  if (id == kNoId) {
    args.drawn[blockIdx.x] = {DrawnRow::kNothing, 0.0F};
  } else {
    args.drawn[blockIdx.x] = {static_cast<int32_t>(id), logits[id]};
  }
}

constexpr uint32_t kFillThreads = 128;

__global__ void __launch_bounds__(kFillThreads) fill_kernel(FillTokensArgs args) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const size_t i = static_cast<size_t>(blockIdx.x) * kFillThreads + threadIdx.x;
  if (i >= args.num_tokens) return;
  const TokenOfDraw of_draw = args.tokens[i];
  const int32_t id = args.drawn[of_draw.draw].id;
  args.token_ids[of_draw.token] = id == DrawnRow::kNothing ? 0 : id;
}

}  // namespace

void draw_tokens(StreamHandle stream, const DrawArgs& args) {
  if (args.num_draws == 0) return;
  CHECK(args.logits != nullptr && args.rows != nullptr && args.drawn != nullptr, "a draw's memory");
  // Masses of more would not fit 64 bits.
  CHECK(args.num_columns > 0 && args.num_columns < (size_t{1} << 24), "ids of 24 bits");
  launch(
      stream,
      {.grid = {grid_width(args.num_draws)},
       .block = {kThreads},
       .num_shared_bytes = Memory::kNumBytes},
      draw_kernel,
      args
  );
}

void fill_drawn_tokens(StreamHandle stream, const FillTokensArgs& args) {
  if (args.num_tokens == 0) return;
  CHECK(
      args.tokens != nullptr && args.drawn != nullptr && args.token_ids != nullptr,
      "the memory of drawn tokens"
  );
  const size_t num_blocks = (args.num_tokens + kFillThreads - 1) / kFillThreads;
  launch(stream, {.grid = {grid_width(num_blocks)}, .block = {kFillThreads}}, fill_kernel, args);
}

}  // namespace millrace::cuda
