#include "kernels/embed.h"

#include "base/check.h"

namespace millrace {

void embed(const Executor& executor, const EmbedArgs& args) {
  CHECK(args.out.num_rows == args.token_ids.size(), "one output row a token");
  CHECK(args.out.num_columns == args.table.num_columns(), "rows as long as the table's");
  executor.pool.parallel_for(args.token_ids.size(), [&](size_t begin, size_t end) {
    for (size_t token = begin; token < end; ++token) {
      // A negative id becomes a huge row, which copy_row refuses.
      const auto row = static_cast<size_t>(args.token_ids[token]);
      args.table.copy_row(row, {args.out.row(token), args.out.num_columns});
    }
  });
}

}  // namespace millrace
