// What a process has used, as the kernel accounts for it.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>

#include "base/result.h"

namespace millrace::bench {

// CPU seconds of all threads of `pid`, user and system, to the nanosecond.
Result<double> cpu_seconds(pid_t pid);

// Resident bytes; what the kernel holds for its sockets is not among them.
Result<int64_t> resident_bytes(pid_t pid);

// The calling thread, and what it forks, stays on this core.
Result<void> pin_to_core(int core);

// As many open files as the system allows.
void raise_open_files_limit();

}  // namespace millrace::bench
