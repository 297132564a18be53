#include "loadgen/process_meter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace millrace::bench {
namespace {

// Of proc(5), /proc/pid/stat.
struct ProcessStat {
  int pid = 0;
  int parent = 0;
  double ended_children_seconds = 0.0;
  double resident_bytes = 0.0;
};

std::optional<int> read_pid(std::string_view name) {
  int pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc{} || end != name.data() + name.size() || pid <= 0) return std::nullopt;
  return pid;
}

// Ascending. A folder that cannot be read gives what there was until then.
std::vector<int> list_processes() {
  std::vector<int> pids;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc", error), end; !error && it != end;
       it.increment(error)) {
    if (const auto pid = read_pid(it->path().filename().native())) pids.push_back(*pid);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

// The program's name, the second field, may hold anything: what counts follows its last ')'.
std::optional<ProcessStat> read_stat(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text, '\0')) return std::nullopt;
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessStat stat{.pid = pid};
  std::string field;
  int64_t ended_ticks = 0;
  for (int number = 3; number <= 24 && fields >> field; ++number) {
    int64_t value = 0;
    std::from_chars(field.data(), field.data() + field.size(), value);
    if (number == 4) stat.parent = static_cast<int>(value);
    if (number == 16 || number == 17) ended_ticks += value;
    if (number != 24) continue;
    stat.resident_bytes = static_cast<double>(value) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  }
  const auto ticks_per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  stat.ended_children_seconds = static_cast<double>(ended_ticks) / ticks_per_second;
  return stat;
}

// To the nanosecond, where /proc knows hundredths.
double read_cpu_seconds(int pid) {
  clockid_t clock = 0;
  timespec time = {};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return 0.0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// The sockets that listen on `port`, as their inodes, of one of /proc/net/tcp and tcp6:
//   sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode ...
void add_listening_inodes(const char* path, uint16_t port, std::unordered_set<std::string>& out) {
  constexpr std::string_view kListen = "0A";
  const std::string wanted = fmt::format(":{:04X}", port);
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::array<std::string, 10> words;
    for (std::string& word : words) fields >> word;
    if (words[1].ends_with(wanted) && words[3] == kListen) out.insert(words[9]);
  }
}

bool has_one_open(int pid, const std::unordered_set<std::string>& links) {
  std::error_code error;
  const std::string folder = fmt::format("/proc/{}/fd", pid);
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code link_error;
    const auto link = std::filesystem::read_symlink(it->path(), link_error);
    if (!link_error && links.contains(link.native())) return true;
  }
  return false;
}

}  // namespace

std::optional<ProcessUse> read_process_tree(int pid) {
  std::unordered_map<int, std::vector<ProcessStat>> children;
  std::optional<ProcessStat> root;
  for (const int other : list_processes()) {
    const std::optional<ProcessStat> stat = read_stat(other);
    if (!stat) continue;  // it has ended meanwhile
    if (other == pid) root = stat;
    children[stat->parent].push_back(*stat);
  }
  if (!root) return std::nullopt;
  ProcessUse use;
  std::vector<ProcessStat> pending = {*root};
  while (!pending.empty()) {
    const ProcessStat stat = pending.back();
    pending.pop_back();
    use.cpu_seconds += read_cpu_seconds(stat.pid) + stat.ended_children_seconds;
    use.resident_bytes += stat.resident_bytes;
    ++use.num_processes;
    // Taken out: a pid that came again meanwhile must not make a ring.
    const auto found = children.extract(stat.pid);
    if (!found) continue;
    pending.insert(pending.end(), found.mapped().begin(), found.mapped().end());
  }
  return use;
}

std::optional<int> find_listening_process(uint16_t port) {
  std::unordered_set<std::string> inodes;
  add_listening_inodes("/proc/net/tcp", port, inodes);
  add_listening_inodes("/proc/net/tcp6", port, inodes);
  if (inodes.empty()) return std::nullopt;
  std::unordered_set<std::string> links;
  for (const std::string& inode : inodes) links.insert(fmt::format("socket:[{}]", inode));
  for (const int pid : list_processes()) {
    if (has_one_open(pid, links)) return pid;
  }
  return std::nullopt;
}

}  // namespace millrace::bench
