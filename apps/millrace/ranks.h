// The processes of --tensor-parallel-size.
#pragma once

#include <memory>

#include "base/result.h"
#include "parallel/process_group.h"
#include "server/local_model.h"

namespace millrace {

// Starts the other ranks, which load their parts as soon as rank 0, this process, loads its own,
// and sets options.group; nullptr where this process has the whole model. To outlive the model.
// REQUIRES: no other thread has been started.
Result<std::unique_ptr<ProcessGroup>> start_ranks(LocalModelOptions& options);

}  // namespace millrace
