#include "checkpoint/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/test_files.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using namespace testing_files;

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ8_0 = 8;

std::string error_of(const std::string& file) {
  const Result<GgufFile> parsed = GgufFile::parse(as_bytes(file));
  return parsed ? "no error" : parsed.error().message;
}

TEST(Gguf, ReadsMetadataOfEveryType) {
  std::string nested;  // [[1, 2], [3]] of int16
  append<uint32_t>(nested, 9);
  append<uint32_t>(nested, 9);
  append<uint64_t>(nested, 2);
  for (const std::vector<int16_t>& inner : {std::vector<int16_t>{1, 2}, std::vector<int16_t>{3}}) {
    append<uint32_t>(nested, 3);
    append<uint64_t>(nested, inner.size());
    for (const int16_t value : inner) append(nested, value);
  }
  const auto scalar = [](uint32_t type, auto value) {
    std::string bytes;
    append(bytes, type);
    append(bytes, value);
    return bytes;
  };
  const std::string bytes = GgufWriter()
                                .raw("u8", scalar(0, uint8_t{200}))
                                .raw("i8", scalar(1, int8_t{-3}))
                                .raw("u16", scalar(2, uint16_t{60000}))
                                .raw("i16", scalar(3, int16_t{-300}))
                                .uint32("u32", 4'000'000'000U)
                                .raw("i32", scalar(5, int32_t{-5}))
                                .float32("f32", 1e-5F)
                                .boolean("bool", 1)
                                .string("string", "text")
                                .raw("u64", scalar(10, uint64_t{1} << 63))
                                .raw("i64", scalar(11, int64_t{-1}))
                                .raw("f64", scalar(12, 0.25))
                                .strings("strings", {"a", "", "ccc"})
                                .numbers<float>("floats", 6, {1.0F, 2.0F})
                                .numbers<int32_t>("ints", 5, {1, -2})
                                .raw("nested", nested)
                                .file();
  const Result<GgufFile> file = GgufFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(**file->integer("u8"), 200);
  EXPECT_EQ(**file->integer("i8"), -3);
  EXPECT_EQ(**file->integer("u16"), 60000);
  EXPECT_EQ(**file->integer("i16"), -300);
  EXPECT_EQ(**file->integer("u32"), 4'000'000'000);
  EXPECT_EQ(**file->integer("i32"), -5);
  EXPECT_EQ(**file->integer("i64"), -1);
  EXPECT_FALSE(file->integer("u64")) << "no int64_t holds it";
  EXPECT_EQ(**file->number("f32"), 1e-5) << "the shortest decimal, not the widened float";
  EXPECT_EQ(**file->number("f64"), 0.25);
  EXPECT_EQ(**file->number("u8"), 200.0);
  EXPECT_EQ(**file->boolean("bool"), true);
  EXPECT_EQ(**file->string("string"), "text");
  EXPECT_EQ(**file->strings("strings"), (std::vector<std::string>{"a", "", "ccc"}));
  EXPECT_EQ(**file->floats("floats"), (std::vector<float>{1.0F, 2.0F}));
  EXPECT_EQ(**file->integers("ints"), (std::vector<int32_t>{1, -2}));
  EXPECT_EQ(std::get<GgufArray>(*file->find("nested")).count, 2U);
  EXPECT_EQ(*file->integer("absent"), std::nullopt);
  EXPECT_THAT(file->integer("string").error().message, HasSubstr("'string' must be an integer"));
  EXPECT_EQ(file->string("u8").error().where, "u8");
}

std::string small_file() {
  return GgufWriter()
      .string("general.architecture", "llama")
      .strings("tokens", {"a", "b"})
      .numbers<int32_t>("types", 5, {1, 2})
      .boolean("flag", 0)
      .f32("one", {4, 2})
      .tensor("two", {32, 3}, kQ8_0, std::string(102, 'q'))
      .file();
}

TEST(Gguf, ReadsTensorsWithTheOutermostDimensionFirst) {
  const std::string bytes = small_file();
  const Result<GgufFile> file = GgufFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->tensors().size(), 2U);
  EXPECT_EQ(file->tensors()[0].shape, (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(file->tensors()[0].bytes.size(), 32U);
  EXPECT_EQ(file->tensors()[1].storage, StorageType::kQ8_0);
  EXPECT_EQ(file->tensors()[1].bytes.size(), 102U);
  EXPECT_EQ(file->tensors()[1].bytes[0], std::byte{'q'});
}

TEST(Gguf, AFileCutAnywhereIsAnError) {
  const std::string file = small_file();
  ASSERT_EQ(error_of(file), "no error");
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_NE(error_of(file.substr(0, size)), "no error") << size;
  }
}

TEST(Gguf, NoChangedByteOfTheHeaderCrashes) {
  const std::string file = small_file();
  for (size_t i = 0; i < file.size(); ++i) {
    for (const int change : {0x01, 0x80, 0xFF}) {
      std::string changed = file;
      changed[i] = static_cast<char>(changed[i] ^ change);
      const Result<GgufFile> parsed = GgufFile::parse(as_bytes(changed));
      if (parsed) (void)parsed->strings("tokens");
    }
  }
}

TEST(Gguf, RefusesOtherFilesAndVersions) {
  EXPECT_THAT(error_of("GGML" + std::string(20, '\0')), HasSubstr("does not begin with \"GGUF\""));
  std::string file = small_file();
  file[4] = 2;
  EXPECT_THAT(error_of(file), HasSubstr("version 2 is not supported"));
}

// Counts are believed only as far as the file's bytes back them.
TEST(Gguf, RefusesCountsAndLengthsThatTheFileDoesNotHold) {
  std::string file = GgufWriter().string("key", "value").file();
  std::string changed = file;
  const uint64_t huge = 1ULL << 62;
  std::memcpy(changed.data() + 8, &huge, 8);
  EXPECT_THAT(error_of(changed), HasSubstr("at most"));
  changed = file;
  std::memcpy(changed.data() + 16, &huge, 8);
  EXPECT_THAT(error_of(changed), HasSubstr("at most"));
  changed = file;
  std::memcpy(changed.data() + 24, &huge, 8);
  EXPECT_THAT(error_of(changed), HasSubstr("the file ends within a key"));

  const auto array = [](uint32_t element, uint64_t count, const std::string& rest) {
    std::string bytes;
    append<uint32_t>(bytes, 9);
    append(bytes, element);
    append(bytes, count);
    return GgufWriter().raw("array", bytes + rest).file();
  };
  EXPECT_THAT(error_of(array(8, huge, "")), HasSubstr("the file ends within array"));
  EXPECT_THAT(error_of(array(0, huge, "")), HasSubstr("the file ends within array"));
  EXPECT_THAT(error_of(array(12, ~0ULL, "")), HasSubstr("18446744073709551615 elements"));
  EXPECT_THAT(error_of(array(13, 1, "x")), HasSubstr("unknown array type 13"));
}

TEST(Gguf, RefusesDeeplyNestedArrays) {
  std::string bytes;
  append<uint32_t>(bytes, 9);
  for (int i = 0; i < 100'000; ++i) {
    append<uint32_t>(bytes, 9);
    append<uint64_t>(bytes, 1);
  }
  EXPECT_THAT(error_of(GgufWriter().raw("deep", bytes).file()), HasSubstr("nested too deep"));
}

TEST(Gguf, RefusesNamesThatStandTwice) {
  EXPECT_THAT(
      error_of(GgufWriter().uint32("a", 1).uint32("a", 2).file()),
      HasSubstr("the key 'a' stands twice")
  );
  EXPECT_THAT(
      error_of(GgufWriter().f32("a", {8}).f32("a", {8}).file()),
      HasSubstr("tensor 'a' stands twice")
  );
}

TEST(Gguf, RefusesEmptyAndOverlongNames) {
  EXPECT_THAT(error_of(GgufWriter().uint32("", 1).file()), HasSubstr("a key of 0 bytes"));
  EXPECT_THAT(
      error_of(GgufWriter().uint32(std::string(70'000, 'k'), 1).file()),
      HasSubstr("a key of 70000 bytes")
  );
  EXPECT_THAT(
      error_of(GgufWriter().f32(std::string(2000, 'n'), {8}).file()),
      HasSubstr("name of 2000 bytes")
  );
}

TEST(Gguf, RefusesAValueThatIsNoBool) {
  EXPECT_THAT(error_of(GgufWriter().boolean("b", 2).file()), HasSubstr("a bool must be 0 or 1"));
}

TEST(Gguf, RefusesWrongAlignments) {
  for (const uint32_t alignment : {0U, 3U, 48U, 1U << 21}) {
    EXPECT_THAT(
        error_of(GgufWriter().uint32("general.alignment", alignment).file()),
        HasSubstr("must be a power of two")
    ) << alignment;
  }
  EXPECT_THAT(
      error_of(GgufWriter().string("general.alignment", "32").file()),
      HasSubstr("must be a power of two")
  );
  EXPECT_EQ(error_of(GgufWriter().uint32("general.alignment", 8).f32("a", {8}).file()), "no error");
}

TEST(Gguf, RefusesImpossibleShapes) {
  const auto shaped = [](std::vector<uint64_t> dims, uint32_t type) {
    return error_of(GgufWriter().tensor("t", std::move(dims), type, std::string(64, '\0')).file());
  };
  EXPECT_THAT(shaped({}, kF32), HasSubstr("rank 0"));
  EXPECT_THAT(shaped({1, 1, 1, 1, 1}, kF32), HasSubstr("rank 5"));
  EXPECT_THAT(shaped({0, 4}, kF32), HasSubstr("a dimension of 0"));
  EXPECT_THAT(shaped({(1ULL << 31) + 1}, kF32), HasSubstr("a dimension of 2147483649"));
  EXPECT_THAT(shaped({~0ULL}, kF32), HasSubstr("a dimension of 18446744073709551615"));
  const uint64_t big = 1ULL << 31;
  EXPECT_THAT(shaped({big, big, big, big}, kF32), HasSubstr("is not a possible shape of F32"));
  EXPECT_THAT(shaped({big, big, 4, 1}, kF32), HasSubstr("is not a possible shape of F32"));
  EXPECT_THAT(shaped({33}, kQ8_0), HasSubstr("is not a possible shape of Q8_0"));
  EXPECT_THAT(shaped({32}, 99), HasSubstr("unknown type 99"));
  EXPECT_EQ(shaped({16}, kF32), "no error");
}

TEST(Gguf, RefusesTensorsOutsideOfTheDataOrOverOthers) {
  const auto placed = [](uint64_t offset) {
    return error_of(GgufWriter().f32("a", {16}).tensor_at("b", {8}, kF32, offset).file());
  };
  EXPECT_THAT(placed(32), HasSubstr("overlaps"));
  EXPECT_THAT(placed(8), HasSubstr("not a multiple of 32"));
  EXPECT_THAT(placed(64), HasSubstr("not within the 64 bytes"));
  EXPECT_THAT(placed(1ULL << 40), HasSubstr("not within the 64 bytes"));
  EXPECT_THAT(placed(~0ULL - 31), HasSubstr("not within the 64 bytes"));
}

TEST(Gguf, ListsTypesThatItCannotRead) {
  const std::string bytes = GgufWriter().tensor("k", {256}, 22, std::string(82, '\0')).file();
  const Result<GgufFile> file = GgufFile::parse(as_bytes(bytes));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors()[0].storage, StorageType::kOther);
  EXPECT_EQ(file->tensors()[0].type_name, "IQ2_S");
}

}  // namespace
}  // namespace millrace
