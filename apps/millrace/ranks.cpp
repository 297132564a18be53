#include "ranks.h"

#include <cstdlib>
#include <utility>

#include "terminal.h"

namespace millrace {
namespace {

// The exit code of a rank that is not the first.
int follow(LocalModelOptions options, ProcessGroup& group) {
  options.group = &group;
  const Result<void> done = follow_local_model(std::move(options));
  if (done) return EXIT_SUCCESS;
  if (done.error().code != ErrorCode::kCancelled) {
    print_stderr("rank {} of {}: {}\n", group.rank(), group.world_size(), done.error().message);
  }
  return EXIT_FAILURE;
}

}  // namespace

Result<std::unique_ptr<ProcessGroup>> start_ranks(LocalModelOptions& options) {
  if (options.tensor_parallel_size == 1) return std::unique_ptr<ProcessGroup>();
  Result<std::unique_ptr<ProcessGroup>> group = ProcessGroup::fork(
      options.tensor_parallel_size, [&options](ProcessGroup& self) { return follow(options, self); }
  );
  if (group) options.group = group->get();
  return group;
}

}  // namespace millrace
