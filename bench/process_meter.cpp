#include "bench/process_meter.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

namespace millrace::bench {

Result<double> cpu_seconds(pid_t pid) {
  clockid_t clock = 0;
  timespec time = {};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) {
    return Error{ErrorCode::kNotFound, fmt::format("no process {}", pid)};
  }
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Result<int64_t> resident_bytes(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/statm", pid));
  int64_t num_pages = 0;
  int64_t num_resident = 0;
  if (!(file >> num_pages >> num_resident)) {
    return Error{ErrorCode::kNotFound, fmt::format("no process {}", pid)};
  }
  return num_resident * ::sysconf(_SC_PAGESIZE);
}

Result<void> pin_to_core(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  if (::sched_setaffinity(0, sizeof cores, &cores) != 0) {
    return invalid_argument(fmt::format("cannot run on core {}", core));
  }
  return {};
}

void raise_open_files_limit() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace millrace::bench
