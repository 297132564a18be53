// Where lines go, and that nothing that happens to their way out hurts who logs.
#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/test_folder.h"

namespace millrace {
namespace {

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0); }
  ~Pipe() {
    close_reader();
    ::close(fds[1]);
  }
  int writer() const { return fds[1]; }
  void close_reader() {
    if (is_reader_open) ::close(fds[0]);
    is_reader_open = false;
  }
  // What is in the pipe now.
  std::string take() {
    ::fcntl(fds[0], F_SETFL, O_NONBLOCK);
    std::string text;
    char buffer[65536];
    while (true) {
      const ssize_t rc = ::read(fds[0], buffer, sizeof buffer);
      if (rc <= 0) return text;
      text.append(buffer, static_cast<size_t>(rc));
    }
  }

  int fds[2] = {};
  bool is_reader_open = true;
};

class LogTest : public testing::Test {
 protected:
  void SetUp() override { std::signal(SIGPIPE, SIG_IGN); }

  std::string content() const { return *read_file(path_); }

  const TestFolder folder_;
  const std::string path_ = folder_.path("log");
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TEST_F(LogTest, AppendsToItsFileWhatIsOfItsLevel) {
  for (int run = 0; run < 2; ++run) {
    const Result<std::unique_ptr<Log>> log =
        Log::open({.level = LogLevel::kWarning, .path = path_});
    ASSERT_TRUE(log.ok());
    (*log)->debug("a");
    (*log)->info("b");
    (*log)->warning("c", {{"run", run}});
    (*log)->error("d");
    EXPECT_FALSE((*log)->is_on(LogLevel::kInfo));
    EXPECT_TRUE((*log)->is_on(LogLevel::kWarning));
    EXPECT_EQ((*log)->num_lines_dropped(), 0U);
  }
  const std::vector<std::string> lines = lines_of(content());
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_TRUE(lines[0].ends_with("Z WARNING c run=0"));
  EXPECT_TRUE(lines[1].ends_with("Z ERROR d"));
  EXPECT_TRUE(lines[2].ends_with("Z WARNING c run=1"));
}

TEST_F(LogTest, SaysWhichFileCannotBeOpened) {
  const Result<std::unique_ptr<Log>> log = Log::open({.path = "/no/such/folder/x.log"});
  ASSERT_FALSE(log.ok());
  EXPECT_EQ(log.error().where, "/no/such/folder/x.log");
  EXPECT_FALSE(Log::open({.path = testing::TempDir()}).ok());
}

TEST_F(LogTest, DoesNotWaitForTheReaderOfANamedPipe) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(Log::open({.path = path_}).ok());
}

TEST_F(LogTest, CountsWhatAFullDiskLoses) {
  const Result<std::unique_ptr<Log>> log = Log::open({.path = "/dev/full"});
  ASSERT_TRUE(log.ok());
  for (int i = 0; i < 3; ++i) (*log)->info("lost");
  EXPECT_EQ((*log)->num_lines_dropped(), 3U);
}

TEST_F(LogTest, SurvivesAClosedPipeAndAClosedDescriptor) {
  Pipe pipe;
  Log log(pipe.writer(), {});
  log.info("first");
  pipe.close_reader();
  log.info("lost");
  EXPECT_EQ(log.num_lines_dropped(), 1U);

  const int fd = ::dup(pipe.writer());
  ::close(fd);
  Log closed(fd, {});
  closed.info("lost");
  EXPECT_EQ(closed.num_lines_dropped(), 1U);
}

void fill_and_drain(Pipe& pipe) {
  Log log(pipe.writer(), {});
  int num_lines = 0;
  while (log.num_lines_dropped() < 10) {
    log.info("a line", {{"i", num_lines++}});
    ASSERT_LT(num_lines, 1'000'000);
  }
  const std::vector<std::string> kept = lines_of(pipe.take());
  EXPECT_EQ(kept.size() + 10, static_cast<size_t>(num_lines));

  log.info("again");
  log.info("and again");
  const std::vector<std::string> lines = lines_of(pipe.take());
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_TRUE(lines[0].ends_with("WARNING log lines could not be written num_lines_lost=10"));
  EXPECT_TRUE(lines[1].ends_with("INFO again"));
  EXPECT_EQ(log.num_lines_dropped(), 10U);
}

TEST_F(LogTest, DropsWhatAFullPipeDoesNotTakeAndSaysSoLater) {
  Pipe pipe;
  fill_and_drain(pipe);
}

TEST_F(LogTest, DropsWhatAFullNonBlockingPipeDoesNotTake) {
  Pipe pipe;
  ::fcntl(pipe.writer(), F_SETFL, O_NONBLOCK);
  fill_and_drain(pipe);
}

TEST_F(LogTest, DropsWhatAFullSocketDoesNotTake) {
  int fds[2] = {};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  Log log(fds[0], {});
  for (int i = 0; i < 1'000'000 && log.num_lines_dropped() == 0; ++i) log.info("a line");
  EXPECT_EQ(log.num_lines_dropped(), 1U);
  ::close(fds[0]);
  ::close(fds[1]);
}

// A disk that fills up in the middle of a line; here it is the largest size that a file may have.
TEST_F(LogTest, BeginsANewLineAfterATornOne) {
  std::signal(SIGXFSZ, SIG_IGN);
  const Result<std::unique_ptr<Log>> log = Log::open({.path = path_});
  ASSERT_TRUE(log.ok());
  (*log)->info("first");
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit tight = {.rlim_cur = content().size() + 30, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  (*log)->info("torn");
  (*log)->info("lost");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  (*log)->info("whole again");
  const std::vector<std::string> lines = lines_of(content());
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_TRUE(lines[0].ends_with("INFO first"));
  EXPECT_EQ(lines[1].size(), 30U);
  EXPECT_TRUE(lines[2].ends_with("num_lines_lost=2")) << lines[2];
  EXPECT_TRUE(lines[3].ends_with("INFO whole again"));
  EXPECT_EQ((*log)->num_lines_dropped(), 2U);
}

TEST_F(LogTest, LinesOfSeveralThreadsAndLogsDoNotMix) {
  constexpr int kNumThreads = 4;
  constexpr int kNumLines = 500;
  const Result<std::unique_ptr<Log>> one = Log::open({.format = LogFormat::kJson, .path = path_});
  const Result<std::unique_ptr<Log>> other = Log::open({.format = LogFormat::kJson, .path = path_});
  ASSERT_TRUE(one.ok() && other.ok());
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kNumThreads; ++t) {
      threads.emplace_back([&, t] {
        Log& log = t % 2 == 0 ? **one : **other;
        const std::string filler(static_cast<size_t>(100 * t), 'x');
        for (int i = 0; i < kNumLines; ++i) {
          log.info("line", {{"id", t * kNumLines + i}, {"filler", filler}});
        }
      });
    }
  }
  std::set<std::string> ids;
  for (const std::string& line : lines_of(content())) {
    EXPECT_TRUE(line.starts_with("{\"time\":\"") && line.ends_with("\"}")) << line;
    const size_t at = line.find("\"id\":");
    ids.insert(line.substr(at, line.find(',', at) - at));
  }
  EXPECT_EQ(ids.size(), size_t{kNumThreads} * kNumLines);
}

TEST_F(LogTest, ThreadsCountWhatIsLostExactly) {
  const Result<std::unique_ptr<Log>> log = Log::open({.path = "/dev/full"});
  ASSERT_TRUE(log.ok());
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 200; ++i) (*log)->error("lost");
      });
    }
  }
  EXPECT_EQ((*log)->num_lines_dropped(), 800U);
}

}  // namespace
}  // namespace millrace
