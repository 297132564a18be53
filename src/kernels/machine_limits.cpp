#include "kernels/machine_limits.h"

#include <cpuid.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/math.h"
#include "kernels/machine_limits_kernel.h"

namespace millrace {
namespace {

constexpr int kNumPasses = 3;

// About 4 ms at two instructions a cycle and 4 GHz: long beside the start of the threads, and short
// enough to be repeated between measurements.
constexpr size_t kNumRounds = size_t{1} << 21;

struct DotVersion {
  DotInstruction instruction;
  std::string_view name;
  uint64_t (*count)(size_t num_rounds);
};

constexpr DotVersion kDotVersions[] = {
    {DotInstruction::kMulpsAddps, "mulps + addps xmm", count_mulps_addps},
    {DotInstruction::kVfmaddYmm, "vfmadd ymm", count_vfmadd_ymm},
    {DotInstruction::kVfmaddZmm, "vfmadd zmm", count_vfmadd_zmm},
    {DotInstruction::kVdpbf16psZmm, "vdpbf16ps zmm", count_vdpbf16ps_zmm},
    {DotInstruction::kVpmaddwdYmm, "vpmaddwd + vpaddd ymm", count_vpmaddwd_ymm},
    {DotInstruction::kVpmaddwdZmm, "vpmaddwd + vpaddd zmm", count_vpmaddwd_zmm},
    {DotInstruction::kVpmaddubswYmm, "vpmaddubsw + vpmaddwd ymm", count_vpmaddubsw_ymm},
    {DotInstruction::kVpmaddubswZmm, "vpmaddubsw + vpmaddwd zmm", count_vpmaddubsw_zmm},
    {DotInstruction::kVpdpbusdYmm, "vpdpbusd ymm", count_vpdpbusd_ymm},
    {DotInstruction::kVpdpbusdZmm, "vpdpbusd zmm", count_vpdpbusd_zmm},
    {DotInstruction::kTdpbf16psTile, "tdpbf16ps tile", count_tdpbf16ps_tile},
    {DotInstruction::kTdpbssdTile, "tdpbssd tile", count_tdpbssd_tile},
};

const DotVersion& version_of(DotInstruction instruction) {
  const auto* const found = std::ranges::find(kDotVersions, instruction, &DotVersion::instruction);
  CHECK(found != std::end(kDotVersions), "each instruction has its version");
  return *found;
}

bool can_run(Isa isa) {
  const std::span<const Isa> isas = supported_isas();
  return std::find(isas.begin(), isas.end(), isa) != isas.end();
}

bool has(DotInstruction instruction) {
  const std::vector<DotInstruction> all = supported_dot_instructions();
  return std::find(all.begin(), all.end(), instruction) != all.end();
}

uint64_t sum_words(Isa isa, std::span<const std::byte> bytes) {
  if (is_reference(isa)) return sum_words_reference(bytes.data(), bytes.size());
  if (isa == Isa::kAvx2) return sum_words_avx2(bytes.data(), bytes.size());
  return sum_words_avx512(bytes.data(), bytes.size());
}

// Words that no two neighbours share, so that a block read twice or left out changes the sum.
uint64_t word_at(size_t index) {
  return index * 0x9e3779b97f4a7c15ULL + 1;
}

}  // namespace

std::string_view name_of(DotInstruction instruction) {
  return version_of(instruction).name;
}

// By leaf 7 of CPUID, because clang 14's __builtin_cpu_supports does not know all of the names. The
// system's part, saving the registers, is what best_isa() has asked.
std::vector<DotInstruction> supported_dot_instructions() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  const bool has_leaf = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0;
  const bool has_avx512_vnni = has_leaf && (ecx & (1U << 11)) != 0;
  const bool has_subleaf = __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0;
  const bool has_avx_vnni = has_subleaf && (eax & (1U << 4)) != 0;
  const bool has_avx512_bf16 = has_subleaf && (eax & (1U << 5)) != 0;

  std::vector<DotInstruction> found = {DotInstruction::kMulpsAddps};
  if (can_run(Isa::kAvx2)) {
    found.push_back(DotInstruction::kVfmaddYmm);
    found.push_back(DotInstruction::kVpmaddwdYmm);
    found.push_back(DotInstruction::kVpmaddubswYmm);
    if (has_avx_vnni) found.push_back(DotInstruction::kVpdpbusdYmm);
  }
  if (can_run(Isa::kAvx512)) {
    found.push_back(DotInstruction::kVfmaddZmm);
    found.push_back(DotInstruction::kVpmaddwdZmm);
    found.push_back(DotInstruction::kVpmaddubswZmm);
    if (has_avx512_bf16) found.push_back(DotInstruction::kVdpbf16psZmm);
    if (has_avx512_vnni) found.push_back(DotInstruction::kVpdpbusdZmm);
  }
  if (best_isa() == Isa::kAmx) {  // an emulated one has no limits
    found.push_back(DotInstruction::kTdpbf16psTile);
    found.push_back(DotInstruction::kTdpbssdTile);
  }
  return found;
}

DotInstruction fastest_dot_instruction(DotOperands operands, Isa isa) {
  if (is_reference(isa)) return DotInstruction::kMulpsAddps;
  if (isa == Isa::kAmx && operands == DotOperands::kInt8) return DotInstruction::kTdpbssdTile;
  if (isa == Isa::kAmx && operands == DotOperands::kBFloat16) return DotInstruction::kTdpbf16psTile;
  const bool is_narrow = isa == Isa::kAvx2;
  if (operands == DotOperands::kInt8) {
    const auto dot = is_narrow ? DotInstruction::kVpdpbusdYmm : DotInstruction::kVpdpbusdZmm;
    if (has(dot)) return dot;
    return is_narrow ? DotInstruction::kVpmaddubswYmm : DotInstruction::kVpmaddubswZmm;
  }
  if (operands == DotOperands::kInt16) {
    return is_narrow ? DotInstruction::kVpmaddwdYmm : DotInstruction::kVpmaddwdZmm;
  }
  if (operands == DotOperands::kBFloat16 && !is_narrow && !prefers_floats() &&
      has(DotInstruction::kVdpbf16psZmm)) {
    return DotInstruction::kVdpbf16psZmm;
  }
  return is_narrow ? DotInstruction::kVfmaddYmm : DotInstruction::kVfmaddZmm;
}

MachineLimits::MachineLimits(ThreadPool& pool, Isa isa, Buffer buffer)
    : pool_(&pool), isa_(isa), buffer_(std::move(buffer)) {}

Result<MachineLimits> MachineLimits::prepare(
    ThreadPool& pool, Isa isa, std::optional<size_t> num_bytes_read
) {
  CHECK(can_run(isa), "instructions that this processor has");
  Result<Buffer> buffer = Buffer::allocate(
      round_up(num_bytes_read.value_or(num_bytes_beyond_caches(pool.num_threads())), kReadBlock)
  );
  if (!buffer) return buffer.error();
  // Untouched memory is one shared page of zeros, and reads of it come from the cache.
  const std::span<uint64_t> words = buffer->as<uint64_t>();
  pool.parallel_for(words.size() * sizeof(uint64_t) / kReadBlock, [&](size_t begin, size_t end) {
    constexpr size_t kWords = kReadBlock / sizeof(uint64_t);
    for (size_t i = begin * kWords; i < end * kWords; ++i) words[i] = word_at(i);
  });
  return MachineLimits(pool, isa, *std::move(buffer));
}

uint64_t MachineLimits::word_sum_expected() const {
  const uint64_t count = buffer_.num_bytes() / sizeof(uint64_t);
  const uint64_t pairs = count % 2 == 0 ? count / 2 * (count - 1) : count * ((count - 1) / 2);
  return pairs * 0x9e3779b97f4a7c15ULL + count;
}

uint64_t MachineLimits::read_once() {
  std::atomic<uint64_t> total = 0;
  const std::span<const std::byte> bytes = std::as_const(buffer_).bytes();
  pool_->parallel_for(bytes.size() / kReadBlock, [&](size_t begin, size_t end) {
    total += sum_words(isa_, bytes.subspan(begin * kReadBlock, (end - begin) * kReadBlock));
  });
  return total.load();
}

double MachineLimits::measure_read_bytes_per_second() {
  Duration best = Duration::max();
  for (int pass = 0; pass < kNumPasses; ++pass) {
    const TimePoint start = Clock::now();
    const uint64_t sum = read_once();
    best = std::min(best, Clock::now() - start);
    CHECK(sum == word_sum_expected(), "every byte was read");
  }
  // A clock's tick, where the buffer is so small that the time is none.
  return static_cast<double>(buffer_.num_bytes()) / to_seconds(std::max(best, Duration(1)));
}

uint64_t MachineLimits::run_multiply_adds(DotInstruction instruction) {
  CHECK(has(instruction), "an instruction that this processor has");
  std::atomic<uint64_t> total = 0;
  const DotVersion& version = version_of(instruction);
  pool_->parallel_for(pool_->num_threads(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) total += version.count(kNumRounds);
  });
  return total.load();
}

double MachineLimits::measure_operations_per_second(DotInstruction instruction) {
  double best = 0.0;
  for (int pass = 0; pass < kNumPasses; ++pass) {
    const TimePoint start = Clock::now();
    const uint64_t count = run_multiply_adds(instruction);
    const double seconds = to_seconds(std::max(Clock::now() - start, Duration(1)));
    best = std::max(best, 2.0 * static_cast<double>(count) / seconds);
  }
  return best;
}

}  // namespace millrace
