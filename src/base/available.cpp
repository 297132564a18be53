#include "base/available.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace millrace {
namespace {

// A hierarchy of control groups as this process sees it: `folder` is its own group's in there, and
// `top` where the hierarchy is mounted.
struct GroupFolder {
  std::filesystem::path top;
  std::filesystem::path folder;
  bool is_version_2 = false;
};

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == word) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

// The path of the process's group in /proc/self/cgroup: of `controller`, or of version 2 (where it
// is empty). A line is number:controllers:path.
std::optional<std::string> group_path(const std::string& root, std::string_view controller) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers =
        std::string_view(line).substr(first + 1, second - first - 1);
    if (controller.empty() ? controllers.empty() : has_word(controllers, controller)) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

// A mount in /proc/self/mountinfo: id, parent, device, the part of the file system that is mounted,
// where, options, more fields to a dash, the file system's type, its source, and its own options.
struct Mount {
  std::string part;
  std::string place;
  std::string type;
  std::string options;
};

std::optional<Mount> read_mount(const std::string& line) {
  std::istringstream words(line);
  Mount mount;
  std::string word;
  words >> word >> word >> word >> mount.part >> mount.place;
  while (words >> word && word != "-") {
  }
  words >> mount.type >> word >> mount.options;
  return words ? std::optional(mount) : std::nullopt;
}

// The hierarchies that may limit `controller`: its own of version 1, and that of version 2.
std::vector<GroupFolder> find_groups(const std::string& root, std::string_view controller) {
  std::vector<GroupFolder> found;
  std::ifstream mounts(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const std::optional<Mount> mount = read_mount(line);
    if (!mount) continue;
    const bool is_version_2 = mount->type == "cgroup2";
    if (!is_version_2 && (mount->type != "cgroup" || !has_word(mount->options, controller))) {
      continue;
    }
    std::optional<std::string> path = group_path(root, is_version_2 ? "" : controller);
    if (!path) continue;
    // In a container the mount begins at its own group, or the path is beyond what is seen here.
    if (mount->part != "/" && path->starts_with(mount->part)) path->erase(0, mount->part.size());
    GroupFolder group = {.top = root + mount->place, .is_version_2 = is_version_2};
    group.folder = group.top / std::filesystem::path(*path).relative_path();
    std::error_code error;
    if (!std::filesystem::is_directory(group.folder, error)) group.folder = group.top;
    found.push_back(std::move(group));
  }
  return found;
}

// Its folder, and the folders of the groups that it is part of, whose limits hold for it too.
template <class Function>
void for_each_level(const GroupFolder& group, const Function& function) {
  std::filesystem::path folder = group.folder;
  function(folder);
  while (folder != group.top && folder.has_relative_path()) {
    folder = folder.parent_path();
    function(folder);
  }
}

// nullopt where there is no such file, or it does not begin with a number ("max" is no limit).
std::optional<int64_t> read_number(const std::filesystem::path& path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

// The sum of the lines of a file of names and numbers that have one of these names.
int64_t sum_of_lines(const std::filesystem::path& path, const std::vector<std::string>& names) {
  std::ifstream file(path);
  std::string name;
  int64_t value = 0;
  int64_t sum = 0;
  while (file >> name >> value) {
    if (std::ranges::find(names, name) != names.end()) sum += value;
  }
  return sum;
}

// What a group's limit leaves; nullopt where it has none.
std::optional<int64_t> memory_left(const std::filesystem::path& folder, bool is_version_2) {
  const auto limit = read_number(folder / (is_version_2 ? "memory.max" : "memory.limit_in_bytes"));
  if (!limit) return std::nullopt;
  const auto used =
      read_number(folder / (is_version_2 ? "memory.current" : "memory.usage_in_bytes"));
  const std::string prefix = is_version_2 ? "" : "total_";  // of a group and those within
  const int64_t of_files =
      sum_of_lines(folder / "memory.stat", {prefix + "inactive_file", prefix + "active_file"});
  return *limit - std::max<int64_t>(used.value_or(0) - of_files, 0);
}

// The CPUs that a group's quota of time pays for; nullopt where it has none.
std::optional<int64_t> whole_cpus(const std::filesystem::path& folder, bool is_version_2) {
  std::optional<int64_t> quota;
  std::optional<int64_t> period;
  if (is_version_2) {
    std::ifstream file(folder / "cpu.max");
    int64_t first = 0;
    int64_t second = 0;
    if (file >> first >> second) {
      quota = first;
      period = second;
    }
  } else {
    quota = read_number(folder / "cpu.cfs_quota_us");  // -1: none
    period = read_number(folder / "cpu.cfs_period_us");
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

// The least that `left` says of a controller's groups; nullopt where none has a limit.
template <class Left>
std::optional<int64_t> least_left(
    const std::string& root, std::string_view controller, const Left& left
) {
  std::optional<int64_t> least;
  for (const GroupFolder& group : find_groups(root, controller)) {
    for_each_level(group, [&](const std::filesystem::path& folder) {
      const std::optional<int64_t> here = left(folder, group.is_version_2);
      if (here) least = std::min(least.value_or(std::numeric_limits<int64_t>::max()), *here);
    });
  }
  return least;
}

int64_t system_memory(const std::string& root) {
  // MemAvailable counts what the page cache would give back; _SC_AVPHYS_PAGES does not.
  std::ifstream info(root + "/proc/meminfo");
  std::string key;
  int64_t kibibytes = 0;
  std::string unit;
  while (info >> key >> kibibytes) {
    std::getline(info, unit);
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return static_cast<int64_t>(::sysconf(_SC_AVPHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

size_t num_available_cpus(const std::string& root) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  int64_t count = CPU_COUNT(&set);
  if (const auto paid = least_left(root, "cpu", whole_cpus)) count = std::min(count, *paid);
  return static_cast<size_t>(std::max<int64_t>(count, 1));
}

int64_t available_memory(const std::string& root) {
  int64_t bytes = system_memory(root);
  if (const auto left = least_left(root, "memory", memory_left)) bytes = std::min(bytes, *left);
  return std::max<int64_t>(bytes, 0);
}

}  // namespace millrace
