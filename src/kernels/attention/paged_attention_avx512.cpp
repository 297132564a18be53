#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/attention/paged_attention_lanes.h"
#include "kernels/lanes_avx512.h"

namespace millrace {
namespace {

// 4 x 4 sums, 4 queries or weights and a key or value: 21 of 32 registers.
struct TileShape {
  static constexpr size_t kHeads = 4;
  static constexpr size_t kChunks = 4;
  static constexpr size_t kDims = 4;
};

}  // namespace

template <class Kv>
void attend_avx512(const AttentionItem& item) {
  attend_lanes<Avx512Lanes, TileShape, Kv>(item);
}

template void attend_avx512<float>(const AttentionItem&);
template void attend_avx512<Float16>(const AttentionItem&);
template void attend_avx512<BFloat16>(const AttentionItem&);

}  // namespace millrace
