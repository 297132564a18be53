// What of the machine this process may use: what the system has, less what others use, and no more
// than the control groups that the process is in leave it (a container's limits: cgroups of version
// 1 and 2, https://docs.kernel.org/admin-guide/cgroup-v2.html). Read anew with each call. `root`:
// where /proc and /sys are, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace millrace {

// CPUs that threads may run on at once: those of the process's affinity, and as many whole ones as
// its groups' quota pays for, since threads that wait for each other beyond it stop until the next
// period. At least one.
size_t num_available_cpus(const std::string& root = "/");

// Bytes that the process could take now; at least 0. Pages of files count as free, as in the
// system's MemAvailable: they are given back for the asking.
int64_t available_memory(const std::string& root = "/");

}  // namespace millrace
