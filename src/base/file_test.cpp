#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <iterator>

#include "base/test_folder.h"

namespace millrace {
namespace {

TEST(File, ReadsAndMapsTheSameBytes) {
  const std::string content("a\0b\n", 4);
  const TestFile file(content);
  const Result<std::string> text = read_file(file.path());
  const Result<MappedFile> mapped = MappedFile::open(file.path());
  ASSERT_TRUE(text);
  ASSERT_TRUE(mapped);
  EXPECT_EQ(*text, content);
  EXPECT_EQ(
      std::string(reinterpret_cast<const char*>(mapped->bytes().data()), mapped->bytes().size()),
      content
  );
}

TEST(File, MapsAnEmptyFileAsNoBytes) {
  const TestFile file("");
  const Result<MappedFile> mapped = MappedFile::open(file.path());
  ASSERT_TRUE(mapped);
  EXPECT_TRUE(mapped->bytes().empty());
}

TEST(File, SaysWhatIsWrongWithAPath) {
  EXPECT_EQ(read_file("/no/such/file").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read_file("/no/such/file").error().where, "/no/such/file");
  EXPECT_NE(read_file("/").error().message.find("not a regular file"), std::string::npos);
  EXPECT_FALSE(read_file(std::string("/tmp\0/x", 7)));
}

TEST(File, RefusesMoreThanTheLimit) {
  const TestFile file("12345");
  EXPECT_TRUE(read_file(file.path(), 5));
  EXPECT_FALSE(read_file(file.path(), 4));
}

// What a process may write to a file, while this lives: more is an error, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t num_bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = num_bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

size_t num_files(const TestFolder& folder) {
  const std::filesystem::directory_iterator files(folder.path());
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST(WriteFile, MakesAndReplaces) {
  const TestFolder folder;
  ASSERT_TRUE(write_file(folder.path("x"), "long"));
  EXPECT_EQ(folder.read("x"), "long");
  ASSERT_TRUE(write_file(folder.path("x"), "new"));
  EXPECT_EQ(folder.read("x"), "new");
  EXPECT_EQ(num_files(folder), 1U);
  EXPECT_FALSE(write_file(folder.path("no folder/x"), "new"));
}

// Half a page once stood where a whole one had been.
TEST(WriteFile, AFailureLeavesWhatWasThere) {
  const TestFolder folder;
  folder.write("x", "precious");
  {
    const FileSizeLimit limit(1024);
    const Result<void> written = write_file(folder.path("x"), std::string(4096, 'n'));
    ASSERT_FALSE(written);
    EXPECT_NE(written.error().message.find("/x'"), std::string::npos) << written.error().message;
    EXPECT_FALSE(write_file(folder.path("y"), std::string(4096, 'n')));
  }
  EXPECT_EQ(folder.read("x"), "precious");
  EXPECT_EQ(num_files(folder), 1U);
}

TEST(WriteFile, KeepsModesAndLinks) {
  const TestFolder folder;
  const std::string path = folder.write("sub/x", "old");
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  std::filesystem::create_symlink(path, folder.path("link"));
  ASSERT_TRUE(write_file(folder.path("link"), "new"));
  EXPECT_EQ(folder.read("sub/x"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("link")));
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
}

TEST(WriteFile, DevicesAreWrittenAsTheyStand) {
  EXPECT_TRUE(write_file("/dev/null", "text"));
  EXPECT_FALSE(write_file("/dev/full", "text"));
  EXPECT_FALSE(std::filesystem::is_regular_file("/dev/null"));
}

}  // namespace
}  // namespace millrace
