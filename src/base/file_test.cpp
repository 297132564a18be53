#include "base/file.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace millrace
