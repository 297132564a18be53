// Lines of files and pipes: their numbers, their limits, their ends.
#include "jsonl_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/test_folder.h"

namespace millrace {
namespace {

using Kind = JsonlLine::Kind;

class JsonlInputTest : public ::testing::Test {
 protected:
  JsonlInput open(std::string_view content, size_t line_bytes_max = 100) {
    path_ = folder_.write("lines", content);
    Result<JsonlInput> input = JsonlInput::open(path_, line_bytes_max);
    EXPECT_TRUE(input) << input.error().message;
    return *std::move(input);
  }
  static JsonlLine next(JsonlInput& input) {
    Result<JsonlLine> line = input.next();
    EXPECT_TRUE(line) << line.error().message;
    return *std::move(line);
  }

  TestFolder folder_;
  std::string path_;
};

TEST_F(JsonlInputTest, NumbersLinesAndCountsBytes) {
  JsonlInput input = open("one\r\n\n  \t\ntwo\nlast");
  EXPECT_EQ(input.file_bytes(), 18U);
  JsonlLine line = next(input);
  EXPECT_EQ(line.text, "one\r");
  EXPECT_EQ(line.number, 1U);
  EXPECT_EQ(line.bytes_read, 5U);
  EXPECT_TRUE(line.is_ended);
  line = next(input);
  EXPECT_EQ(line.text, "two");
  EXPECT_EQ(line.number, 4U);
  EXPECT_EQ(line.bytes_read, 14U);
  line = next(input);
  EXPECT_EQ(line.text, "last");
  EXPECT_EQ(line.number, 5U);
  EXPECT_FALSE(line.is_ended);
  for (int i = 0; i < 2; ++i) {
    line = next(input);
    EXPECT_EQ(line.kind, Kind::kEnd);
    EXPECT_EQ(line.bytes_read, 18U);
  }
}

TEST_F(JsonlInputTest, AnEmptyFileHasNoLine) {
  JsonlInput input = open("");
  EXPECT_EQ(next(input).kind, Kind::kEnd);
  JsonlInput blank = open("\n\n ");
  EXPECT_EQ(next(blank).kind, Kind::kEnd);
}

TEST_F(JsonlInputTest, ALongLineIsSkippedAndSaid) {
  const size_t sizes[] = {101, 300'000, 2'000'000};  // within one read, and over several
  for (const size_t size : sizes) {
    JsonlInput input = open("a\n" + std::string(size, 'x') + "\n" + std::string(100, 'y') + "\n");
    EXPECT_EQ(next(input).text, "a");
    const JsonlLine line = next(input);
    EXPECT_EQ(line.kind, Kind::kTooLong) << size;
    EXPECT_EQ(line.number, 2U);
    EXPECT_EQ(line.bytes_read, size + 3);
    EXPECT_EQ(next(input).text, std::string(100, 'y'));
    JsonlInput last = open("a\n" + std::string(size, 'x'));
    EXPECT_EQ(next(last).text, "a");
    EXPECT_EQ(next(last).kind, Kind::kTooLong) << size;
    EXPECT_EQ(next(last).kind, Kind::kEnd);
  }
}

TEST_F(JsonlInputTest, ManyLinesAreAllThere) {
  std::string content;
  for (int i = 0; i < 50'000; ++i) content += std::to_string(i) + "\n";
  JsonlInput input = open(content);
  for (int i = 0; i < 50'000; ++i) {
    const JsonlLine line = next(input);
    ASSERT_EQ(line.text, std::to_string(i));
    ASSERT_EQ(line.number, static_cast<uint64_t>(i) + 1);
  }
  EXPECT_EQ(next(input).kind, Kind::kEnd);
}

TEST_F(JsonlInputTest, WaitsForAPipeUntilItIsInterrupted) {
  path_ = folder_.path("pipe");
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  // Both ends: opening one alone would wait for the other.
  std::fstream other_end(path_, std::ios::in | std::ios::out);
  Result<JsonlInput> input = JsonlInput::open(path_, 100);
  ASSERT_TRUE(input) << input.error().message;
  EXPECT_FALSE(input->file_bytes());
  other_end << "first\nsec" << std::flush;
  EXPECT_EQ(next(*input).text, "first");
  std::thread interrupter([&] { input->interrupt(); });
  EXPECT_EQ(next(*input).kind, Kind::kInterrupted);
  interrupter.join();
  EXPECT_EQ(next(*input).kind, Kind::kInterrupted);
}

TEST_F(JsonlInputTest, RefusesWhatCannotBeRead) {
  const Result<JsonlInput> missing = JsonlInput::open(folder_.path("none"), 100);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, ::testing::HasSubstr("No such file"));
  const Result<JsonlInput> directory = JsonlInput::open(folder_.path(""), 100);
  ASSERT_FALSE(directory);
  EXPECT_THAT(directory.error().message, ::testing::HasSubstr("is a directory"));
}

TEST_F(JsonlInputTest, KnowsItsFileByAnyName) {
  const JsonlInput input = open("x\n");
  std::filesystem::create_symlink(path_, folder_.path("link"));
  EXPECT_TRUE(input.is_same_file(folder_.path("link")));
  EXPECT_FALSE(input.is_same_file(folder_.write("other", "x\n")));
  EXPECT_FALSE(input.is_same_file(folder_.path("none")));
}

}  // namespace
}  // namespace millrace
