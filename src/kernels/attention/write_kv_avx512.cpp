#include "kernels/attention/write_kv_kernel.h"
#include "kernels/attention/write_kv_lanes.h"
#include "kernels/lanes_avx512.h"

namespace millrace {

template <class Kv>
void write_kv_avx512(const WriteKvTask& task, size_t token_begin, size_t token_end) {
  write_kv_tokens<Avx512Lanes, Kv>(task, token_begin, token_end);
}

template void write_kv_avx512<float>(const WriteKvTask&, size_t, size_t);
template void write_kv_avx512<Float16>(const WriteKvTask&, size_t, size_t);
template void write_kv_avx512<BFloat16>(const WriteKvTask&, size_t, size_t);

}  // namespace millrace
