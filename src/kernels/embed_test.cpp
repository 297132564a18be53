#include "kernels/embed.h"

#include <gtest/gtest.h>

#include "kernels/test_data.h"

namespace millrace {
namespace {

TEST(Embed, CopiesTheRowOfEachToken) {
  ThreadPool pool(2);
  const std::vector<float> rows = random_floats(37 * 10, 1);
  const PackedMatrix table = packed(DType::kFloat32, rows, 10);
  const std::vector<TokenId> ids = {36, 0, 17, 17, 16};
  std::vector<float> out(ids.size() * 10);
  embed({best_isa(), pool}, {.token_ids = ids, .table = table, .out = rows_of(out, 10)});
  for (size_t token = 0; token < ids.size(); ++token) {
    for (size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(out[token * 10 + i], rows[static_cast<size_t>(ids[token]) * 10 + i]);
    }
  }
}

TEST(EmbedDeathTest, RefusesTokensOutsideTheTable) {
  ThreadPool pool(1);
  const PackedMatrix table = packed(DType::kFloat32, random_floats(40, 1), 10);
  std::vector<float> out(10);
  for (const TokenId id : {4, -1}) {
    const std::vector<TokenId> ids = {id};
    EXPECT_DEATH(
        embed({best_isa(), pool}, {.token_ids = ids, .table = table, .out = rows_of(out, 10)}),
        "a row of this matrix"
    );
  }
}

}  // namespace
}  // namespace millrace
