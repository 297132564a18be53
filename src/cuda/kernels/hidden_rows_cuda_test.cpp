#include <gtest/gtest.h>

#include "cuda/kernels/cuda_test_data.h"
#include "cuda/kernels/hidden_rows.h"

namespace millrace::cuda {
namespace {

TEST(HiddenRowsOnDevice, AreGatheredFromTokensAndSlots) {
  for (const size_t width : {1, 5, 128, 900}) {
    const std::vector<float> hidden = random_floats(4 * width, 1);
    const std::vector<float> saved = random_floats(3 * width, 2);
    const std::vector<RowSource> sources = {{0, 3}, {1, 2}, {0, 0}, {1, 2}, {1, 0}};
    const DeviceArray<float> device_hidden(hidden);
    const DeviceArray<float> device_saved(saved);
    const DeviceArray<RowSource> device_sources(sources);
    const DeviceArray<float> out(sources.size() * width);
    gather_rows(
        {},
        {.hidden = device_hidden.data(),
         .saved = device_saved.data(),
         .width = width,
         .sources = device_sources.data(),
         .num_rows = sources.size(),
         .out = out.data()}
    );
    const std::vector<float> result = out.read();
    for (size_t i = 0; i < result.size(); ++i) {
      const RowSource source = sources[i / width];
      const std::vector<float>& rows = source.is_saved != 0 ? saved : hidden;
      ASSERT_EQ(result[i], rows[static_cast<size_t>(source.index) * width + i % width]) << i;
    }
  }
}

TEST(HiddenRowsOnDevice, AreSavedInTheirSlotsAlone) {
  constexpr size_t kWidth = 130;
  const std::vector<float> hidden = random_floats(4 * kWidth, 1);
  const std::vector<float> before = random_floats(5 * kWidth, 2);
  const DeviceArray<float> device_hidden(hidden);
  const DeviceArray<float> saved(before);
  const DeviceArray<RowSave> saves(std::vector<RowSave>{{3, 1}, {0, 4}});
  save_rows(
      {},
      {.hidden = device_hidden.data(),
       .saved = saved.data(),
       .width = kWidth,
       .saves = saves.data(),
       .num_rows = 2}
  );
  const std::vector<float> result = saved.read();
  for (size_t i = 0; i < result.size(); ++i) {
    const size_t slot = i / kWidth;
    const float expected = slot == 1   ? hidden[3 * kWidth + i % kWidth]
                           : slot == 4 ? hidden[i % kWidth]
                                       : before[i];
    ASSERT_EQ(result[i], expected) << i;
  }
}

TEST(HiddenRowsOnDevice, DoNothingForNoRows) {
  gather_rows({}, {});
  save_rows({}, {});
}

}  // namespace
}  // namespace millrace::cuda
