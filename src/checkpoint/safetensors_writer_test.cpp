#include "checkpoint/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "base/file.h"
#include "base/test_folder.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/test_files.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using namespace testing_files;

TensorToWrite tensor_of(std::string name, const std::vector<float>& values, size_t num_parts) {
  const auto bytes = std::as_bytes(std::span(values));
  return {
      .name = std::move(name),
      .dtype = "F32",
      .shape = {static_cast<int64_t>(values.size())},
      .num_bytes = bytes.size(),
      .write = [bytes, num_parts](const TensorToWrite::Put& put) {
        for (size_t i = 0; i < num_parts; ++i) {
          const size_t begin = bytes.size() * i / num_parts;
          put(bytes.subspan(begin, bytes.size() * (i + 1) / num_parts - begin));
        }
      }};
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const TestFolder directory;
  const std::vector<float> first = {1.5F, -2.0F, 3.25F};
  const std::vector<float> second = {7.0F};
  const std::vector<TensorToWrite> tensors = {
      tensor_of("b\"quoted\"", first, 2), tensor_of("a", second, 1)};
  std::vector<size_t> progress;
  const Result<void> written = write_safetensors(
      directory.path("x.safetensors"),
      tensors,
      [&](size_t num_written, size_t num_tensors) {
        EXPECT_EQ(num_tensors, 2U);
        progress.push_back(num_written);
      }
  );
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_THAT(progress, testing::ElementsAre(1U, 2U));
  EXPECT_FALSE(std::filesystem::exists(directory.path("x.safetensors.part")));

  const auto source = open_safetensors_file(directory.path("x.safetensors"));
  ASSERT_TRUE(source) << source.error().message;
  const TensorInfo* const tensor = (*source)->find("b\"quoted\"");
  ASSERT_NE(tensor, nullptr);
  std::vector<float> read(3);
  (*source)->read_rows(*tensor, 0, 1, read);
  EXPECT_EQ(read, first);
  const std::span<const std::byte> raw = (*source)->raw_bytes(*tensor);
  EXPECT_TRUE(std::ranges::equal(raw, std::as_bytes(std::span(first))));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(raw.data()) % 64, 0U) << "data begins at 64 bytes";
  (*source)->read_rows(*(*source)->find("a"), 0, 1, std::span(read).first(1));
  EXPECT_EQ(read[0], 7.0F);
}

TEST(SafetensorsWriter, SaysWhichFileItCannotWriteAndLeavesNothing) {
  const TestFolder directory;
  const std::vector<float> values = {1.0F};
  const std::vector<TensorToWrite> tensors = {tensor_of("a", values, 1)};
  const std::string path = directory.path("missing/x.safetensors");
  const Result<void> written = write_safetensors(path, tensors);
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("cannot write '" + path + "': No such file"));

  std::filesystem::create_directories(directory.path("taken/x"));  // a rename cannot replace it
  const Result<void> refused = write_safetensors(directory.path("taken"), tensors);
  ASSERT_FALSE(refused);
  EXPECT_FALSE(std::filesystem::exists(directory.path("taken.part")));
}

// What was called after the write that failed said why: another error than that of the disk.
TEST(SafetensorsWriter, SaysThatTheDiskIsFull) {
  const TestFolder directory;
  std::filesystem::create_symlink("/dev/full", directory.path("x.part"));
  const std::vector<float> values(1 << 16, 1.0F);
  const std::vector<TensorToWrite> tensors = {tensor_of("a", values, 1)};
  const Result<void> written =
      write_safetensors(directory.path("x"), tensors, [](size_t, size_t) { errno = EIO; });
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("No space left on device"));
}

}  // namespace
}  // namespace millrace
