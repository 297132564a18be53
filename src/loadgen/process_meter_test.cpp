#include "loadgen/process_meter.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/address.h"

namespace millrace::bench {
namespace {

uint16_t port_of(const http::ListeningSocket& socket) {
  return std::get_if<http::TcpAddress>(&socket.address)->port;
}

void burn(double seconds) {
  const double begin = read_process_tree(::getpid())->cpu_seconds;
  while (read_process_tree(::getpid())->cpu_seconds < begin + seconds) {
  }
}

TEST(ProcessMeter, CountsTheTimeOfThisProcess) {
  const std::optional<ProcessUse> before = read_process_tree(::getpid());
  ASSERT_TRUE(before.has_value());
  EXPECT_GT(before->resident_bytes, 1e6);
  EXPECT_GE(before->num_processes, 1);
  burn(0.02);
  EXPECT_GE(read_process_tree(::getpid())->cpu_seconds, before->cpu_seconds + 0.02);
}

TEST(ProcessMeter, CountsChildrenWhileTheyLiveAndAfterwards) {
  const int64_t num_before = read_process_tree(::getpid())->num_processes;
  int ready[2] = {};
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // Only what is safe after a fork in a program of threads.
    timespec used = {};
    do {
      ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    } while (used.tv_nsec < 50'000'000 && used.tv_sec == 0);
    static_cast<void>(!::write(ready[1], "x", 1));
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const ProcessUse alive = *read_process_tree(::getpid());
  EXPECT_EQ(alive.num_processes, num_before + 1);
  EXPECT_GE(read_process_tree(child)->cpu_seconds, 0.05);
  EXPECT_GE(alive.cpu_seconds, 0.05);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(read_process_tree(child).has_value());
  // The kernel counts ended children in hundredths of a second.
  EXPECT_GE(read_process_tree(::getpid())->cpu_seconds, alive.cpu_seconds - 0.02);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(ProcessMeter, KnowsNothingOfAProcessThatIsNotThere) {
  EXPECT_FALSE(read_process_tree(1 << 30).has_value());
}

TEST(ProcessMeter, FindsWhoListens) {
  for (const char* host : {"127.0.0.1:0", "[::1]:0"}) {
    auto socket = http::listen_on(*http::parse_address(host), {});
    if (!socket) continue;  // a machine without IPv6
    const uint16_t port = port_of(*socket);
    EXPECT_EQ(find_listening_process(port), ::getpid()) << host;
    socket->fd.reset();
    EXPECT_FALSE(find_listening_process(port).has_value()) << host;
  }
}

}  // namespace
}  // namespace millrace::bench
