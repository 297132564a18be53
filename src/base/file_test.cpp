#include "base/file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace millrace {
namespace {

std::string temporary_file(const std::string& content) {
  const std::string path = testing::TempDir() + "millrace_file_test_" + std::to_string(::getpid());
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST(File, ReadsAndMapsTheSameBytes) {
  const std::string content("a\0b\n", 4);
  const std::string path = temporary_file(content);
  const Result<std::string> text = read_file(path);
  const Result<MappedFile> mapped = MappedFile::open(path);
  ASSERT_TRUE(text);
  ASSERT_TRUE(mapped);
  EXPECT_EQ(*text, content);
  EXPECT_EQ(
      std::string(reinterpret_cast<const char*>(mapped->bytes().data()), mapped->bytes().size()),
      content
  );
}

TEST(File, MapsAnEmptyFileAsNoBytes) {
  const Result<MappedFile> mapped = MappedFile::open(temporary_file(""));
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
  const std::string path = temporary_file("12345");
  EXPECT_TRUE(read_file(path, 5));
  EXPECT_FALSE(read_file(path, 4));
}

}  // namespace
}  // namespace millrace
