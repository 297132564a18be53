// What a process of this machine has used, as the kernel accounts for it. Linux's /proc; pure
// reads.
#pragma once

#include <cstdint>
#include <optional>

namespace millrace::bench {

struct ProcessUse {
  double cpu_seconds = 0.0;     // user and system, also of children that have ended
  double resident_bytes = 0.0;  // pages that processes share count for each
  int64_t num_processes = 0;
};

// Of the process and all its descendants: servers run their engines in processes of their own.
// none: there is no such process.
std::optional<ProcessUse> read_process_tree(int pid);

// The process that listens on a TCP port of this machine; the oldest, where several share the
// socket. none: nobody, or somebody whose files this user may not see.
std::optional<int> find_listening_process(uint16_t port);

}  // namespace millrace::bench
