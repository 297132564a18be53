#include "base/available.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <string>

#include "base/test_folder.h"

namespace millrace {
namespace {

constexpr int64_t kMiB = 1 << 20;

// A machine's /proc and /sys.
class Available : public testing::Test {
 protected:
  Available() { write("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    8388608 kB\n"); }

  void write(const std::string& name, const std::string& content) const {
    root_.write(name, content);
  }
  std::string root() const { return root_.path(); }
  void mount_version_2(const std::string& part) const {
    write(
        "proc/self/mountinfo",
        "24 1 0:5 / /proc rw - proc proc rw\n25 1 0:6 " + part +
            " /sys/fs/cgroup rw shared:4 - cgroup2 cgroup rw,nsdelegate\n"
    );
  }

  TestFolder root_;
};

TEST_F(Available, WithoutGroupsIsWhatTheSystemHas) {
  EXPECT_EQ(available_memory(root()), 8192 * kMiB);
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  EXPECT_EQ(num_available_cpus(root()), static_cast<size_t>(CPU_COUNT(&set)));
}

TEST_F(Available, IsWhatTheTightestGroupAboveLeaves) {
  mount_version_2("/");
  write("proc/self/cgroup", "0::/a/b\n");
  write("sys/fs/cgroup/a/b/memory.max", "max\n");
  write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(available_memory(root()), 8192 * kMiB);
  write("sys/fs/cgroup/a/memory.max", std::to_string(700 * kMiB));
  write("sys/fs/cgroup/a/memory.current", std::to_string(300 * kMiB));
  write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(available_memory(root()), 400 * kMiB);
  EXPECT_EQ(num_available_cpus(root()), 1U);
  // Pages of files are given back; those of shared memory (shmem, of `file` too) are not.
  write(
      "sys/fs/cgroup/a/memory.stat",
      "anon 5\nfile 999\nactive_file 1048576\ninactive_file 3145728\n"
  );
  EXPECT_EQ(available_memory(root()), 404 * kMiB);
}

TEST_F(Available, NeverIsLessThanNothingAndOneCpu) {
  mount_version_2("/");
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "1000");
  write("sys/fs/cgroup/memory.current", "2000");
  write("sys/fs/cgroup/cpu.max", "10000 100000");
  EXPECT_EQ(available_memory(root()), 0);
  EXPECT_EQ(num_available_cpus(root()), 1U);
}

// A container sees its group as the top of the hierarchy, and the path as its host does.
TEST_F(Available, FindsTheGroupOfAContainer) {
  mount_version_2("/docker/7");
  write("proc/self/cgroup", "0::/docker/7\n");
  write("sys/fs/cgroup/memory.max", std::to_string(64 * kMiB));
  EXPECT_EQ(available_memory(root()), 64 * kMiB);
  mount_version_2("/");
  write("proc/self/cgroup", "0::/not/here\n");
  EXPECT_EQ(available_memory(root()), 64 * kMiB);
}

TEST_F(Available, ReadsGroupsOfVersionOne) {
  write(
      "proc/self/mountinfo",
      "14 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
      "11 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpuacct,cpu\n"
  );
  write("proc/self/cgroup", "4:memory:/x\n1:cpu,cpuacct:/y\n0::/\n");
  write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712");
  write("sys/fs/cgroup/cpu/y/cpu.cfs_quota_us", "-1");
  write("sys/fs/cgroup/cpu/y/cpu.cfs_period_us", "100000");
  EXPECT_EQ(available_memory(root()), 8192 * kMiB);
  write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", std::to_string(100 * kMiB));
  write("sys/fs/cgroup/memory/x/memory.usage_in_bytes", std::to_string(90 * kMiB));
  write("sys/fs/cgroup/memory/x/memory.stat", "inactive_file 7\ntotal_inactive_file 5242880\n");
  write("sys/fs/cgroup/cpu/y/cpu.cfs_quota_us", "100000");
  EXPECT_EQ(available_memory(root()), 15 * kMiB);
  EXPECT_EQ(num_available_cpus(root()), 1U);
}

TEST_F(Available, PassesOverWhatItCannotRead) {
  write("proc/self/mountinfo", "\n1 2\n25 1 0:6 / /sys/fs/cgroup rw - cgroup2\n");
  write("proc/self/cgroup", "0\n0:\n");
  EXPECT_EQ(available_memory(root()), 8192 * kMiB);
  mount_version_2("/");
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "");
  write("sys/fs/cgroup/cpu.max", "x");
  EXPECT_EQ(available_memory(root()), 8192 * kMiB);
}

}  // namespace
}  // namespace millrace
