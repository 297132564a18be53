#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/attention/paged_attention_lanes.h"
#include "kernels/lanes_avx2.h"

namespace millrace {
namespace {

// 2 x 2 sums of two registers each, 2 queries or weights and a key or value: 12 of 16 registers.
struct TileShape {
  static constexpr size_t kHeads = 2;
  static constexpr size_t kChunks = 2;
  static constexpr size_t kDims = 2;
};

}  // namespace

template <class Kv>
void attend_avx2(const AttentionItem& item) {
  attend_lanes<Avx2Lanes, TileShape, Kv>(item);
}

template void attend_avx2<float>(const AttentionItem&);
template void attend_avx2<Float16>(const AttentionItem&);
template void attend_avx2<BFloat16>(const AttentionItem&);

}  // namespace millrace
