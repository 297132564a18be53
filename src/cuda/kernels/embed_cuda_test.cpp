#include <gtest/gtest.h>

#include "cuda/kernels/cuda_test_data.h"
#include "cuda/kernels/embed.h"

namespace millrace::cuda {
namespace {

TEST(EmbedOnDevice, WidensTheRowsOfTheTokens) {
  for (const size_t hidden : {1, 7, 8, 64, 896, 1024, 1030}) {
    constexpr size_t kVocab = 19;
    const std::vector<uint16_t> table = random_bfloat16(kVocab * hidden, 3);
    const std::vector<int32_t> ids = {18, 0, 5, 5, 17, 1};
    const DeviceArray<uint16_t> device_table(packed_weights(table, hidden));
    const DeviceArray<int32_t> device_ids(ids);
    const DeviceArray<float> out(ids.size() * hidden);
    embed(
        {},
        {.token_ids = device_ids.data(),
         .num_tokens = ids.size(),
         .table = device_table.data(),
         .hidden = hidden,
         .out = out.data()}
    );
    const std::vector<float> result = out.read();
    for (size_t i = 0; i < result.size(); ++i) {
      const auto id = static_cast<size_t>(ids[i / hidden]);
      ASSERT_EQ(result[i], widened(table[id * hidden + i % hidden])) << hidden << ", " << i;
    }
  }
}

TEST(EmbedOnDevice, DoesNothingForNoTokens) {
  embed({}, {});
}

}  // namespace
}  // namespace millrace::cuda
