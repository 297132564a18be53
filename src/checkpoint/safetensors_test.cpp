#include "checkpoint/safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/json.h"
#include "base/test_folder.h"
#include "checkpoint/test_files.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using namespace testing_files;

std::string error_of(const std::string& file) {
  const Result<SafetensorsHeader> header = parse_safetensors(as_bytes(file));
  return header ? "no error" : header.error().message;
}

std::string error_of_header(const std::string& header, size_t data_size = 0) {
  return error_of(safetensors_file(header, std::string(data_size, '\0')));
}

// The fields of a tensor "a" in an otherwise good header.
std::string error_of_tensor(const std::string& fields, size_t data_size) {
  return error_of_header("{\"a\":{" + fields + "}}", data_size);
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirBytes) {
  const std::string file = safetensors_file(
      R"({"b":{"dtype":"F16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )",
      std::string(16, '\x01')
  );
  const Result<SafetensorsHeader> header = parse_safetensors(as_bytes(file));
  ASSERT_TRUE(header) << header.error().message;
  ASSERT_EQ(header->tensors.size(), 2U);
  EXPECT_EQ(header->tensors[0].info.name, "a");
  EXPECT_EQ(header->tensors[0].info.shape, std::vector<int64_t>());
  EXPECT_EQ(header->tensors[1].info.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(header->tensors[1].info.storage, StorageType::kF16);
  EXPECT_EQ(header->tensors[1].bytes.size(), 12U);
  EXPECT_EQ(header->metadata, (std::vector<std::pair<std::string, std::string>>{{"format", "pt"}}));
}

TEST(Safetensors, ReadsAFileWithoutTensors) {
  EXPECT_EQ(error_of_header("{}"), "no error");
}

TEST(Safetensors, ReadsEmptyTensorsBetweenOthers) {
  EXPECT_EQ(
      error_of_header(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
          R"("e":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},)"
          R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
          8
      ),
      "no error"
  );
}

TEST(Safetensors, RefusesAWrongLength) {
  EXPECT_THAT(error_of(""), HasSubstr("0 bytes"));
  EXPECT_THAT(error_of("1234567"), HasSubstr("7 bytes"));
  std::string file;
  append<uint64_t>(file, 3);
  EXPECT_THAT(error_of(file + "{}"), HasSubstr("more than the 2 bytes"));
  file.clear();
  append<uint64_t>(file, 100'000'001);
  EXPECT_THAT(error_of(file + "{}"), HasSubstr("above the limit of 100000000"));
  file.clear();
  append<uint64_t>(file, ~uint64_t{0});
  EXPECT_THAT(error_of(file + "{}"), HasSubstr("above the limit"));
  file.clear();
  append<uint64_t>(file, 0);
  EXPECT_THAT(error_of(file), HasSubstr("does not begin with '{'"));
}

TEST(Safetensors, RefusesAHeaderThatIsNotOneJsonObject) {
  EXPECT_THAT(error_of_header(" {}"), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(error_of_header("[]"), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(error_of_header("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of_header("{}x"), HasSubstr("extra text"));
  EXPECT_THAT(error_of_header(std::string("{}\0", 3)), HasSubstr("extra text"));
  EXPECT_THAT(error_of_header("{\"\xff\":1}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of_header("{'a':1}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of_header(R"({"a":{"b":{"c":{"d":{"e":1}}}}})"), HasSubstr("not valid JSON"));
}

TEST(Safetensors, RefusesAKeyThatStandsTwice) {
  const std::string entry = R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]})";
  EXPECT_THAT(error_of_header("{" + entry + "," + entry + "}", 4), HasSubstr("stands twice"));
  EXPECT_THAT(
      error_of_tensor(R"("dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4])", 4),
      HasSubstr("stands twice")
  );
}

TEST(Safetensors, RefusesMetadataThatIsNotStrings) {
  EXPECT_THAT(error_of_header(R"({"__metadata__":{"a":1}})"), HasSubstr("must be a string"));
  EXPECT_THAT(error_of_header(R"({"__metadata__":{"a":null}})"), HasSubstr("must be a string"));
  EXPECT_THAT(error_of_header(R"({"__metadata__":[]})"), HasSubstr("must be an object"));
}

TEST(Safetensors, RefusesFieldsOfAnotherType) {
  EXPECT_THAT(error_of_header(R"({"a":1})"), HasSubstr("'a': must be an object"));
  EXPECT_THAT(error_of_tensor(R"("shape":[],"data_offsets":[0,4])", 4), HasSubstr("\"dtype\""));
  EXPECT_THAT(
      error_of_tensor(R"("dtype":"F33","shape":[],"data_offsets":[0,4])", 4),
      HasSubstr("unknown dtype 'F33'")
  );
  EXPECT_THAT(error_of_tensor(R"("dtype":"F32","data_offsets":[0,4])", 4), HasSubstr("\"shape\""));
  for (const std::string dim : {"-1", "1.0", "\"1\"", "null", "9223372036854775808", "[1]"}) {
    EXPECT_THAT(
        error_of_tensor(R"("dtype":"F32","shape":[)" + dim + R"(],"data_offsets":[0,4])", 4),
        HasSubstr("\"shape\" must hold integers")
    ) << dim;
  }
  EXPECT_THAT(
      error_of_tensor(R"("dtype":"F32","shape":[],"data_offsets":[0])", 4),
      HasSubstr("\"data_offsets\"")
  );
  EXPECT_THAT(
      error_of_tensor(R"("dtype":"F32","shape":[],"data_offsets":[0,4],"x":1)", 4),
      HasSubstr("more than")
  );
  EXPECT_THAT(
      error_of_tensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4])", 4),
      HasSubstr("9 dimensions")
  );
}

TEST(Safetensors, RefusesAShapeThatDoesNotFillItsBytes) {
  EXPECT_THAT(
      error_of_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4),
      HasSubstr("shape [2] of F32 does not take the 4 bytes")
  );
  const std::string huge = "4294967296,4294967296";  // 2^64 elements: 0 when it wraps
  EXPECT_THAT(
      error_of_tensor(R"("dtype":"F32","shape":[)" + huge + R"(],"data_offsets":[0,0])", 0),
      HasSubstr("does not take")
  );
  EXPECT_THAT(
      error_of_tensor(R"("dtype":"F32","shape":[)" + huge + R"(,0],"data_offsets":[0,0])", 0),
      HasSubstr("does not take")
  );
  EXPECT_THAT(
      error_of_tensor(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])", 1),
      HasSubstr("does not take")
  );
  EXPECT_EQ(error_of_tensor(R"("dtype":"F4","shape":[4],"data_offsets":[0,2])", 2), "no error");
}

TEST(Safetensors, RefusesOffsetsOutsideOfTheFile) {
  EXPECT_THAT(
      error_of_tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])", 4),
      HasSubstr("not within 4 bytes")
  );
  EXPECT_THAT(
      error_of_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 4),
      HasSubstr("not within 4 bytes")
  );
}

TEST(Safetensors, RefusesGapsOverlapsAndATail) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + first +
           R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(error_of_header(two("[0,4]", "[4,8]"), 8), "no error");
  EXPECT_THAT(error_of_header(two("[0,4]", "[8,12]"), 12), HasSubstr("begins at byte 8 where 4"));
  EXPECT_THAT(error_of_header(two("[4,8]", "[8,12]"), 12), HasSubstr("begins at byte 4 where 0"));
  EXPECT_THAT(error_of_header(two("[0,4]", "[2,6]"), 8), HasSubstr("begins at byte 2 where 4"));
  EXPECT_THAT(
      error_of_header(two("[0,4]", "[4,8]"), 9), HasSubstr("take 8 bytes, the file holds 9")
  );
  EXPECT_THAT(error_of_header("{}", 1), HasSubstr("take 0 bytes, the file holds 1"));
}

// A small file must not claim much memory: many tensors that all name the same bytes.
TEST(Safetensors, RefusesTensorsThatShareTheirBytes) {
  std::string header = "{";
  for (int i = 0; i < 1000; ++i) {
    header += fmt::format(
        R"({}"{}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", i == 0 ? "" : ",", i
    );
  }
  EXPECT_THAT(error_of_header(header + "}", 4), HasSubstr("end to end"));
}

TEST(Safetensors, ShowsHostileNamesAsOneShortLine) {
  const std::string error =
      error_of_header(fmt::format(R"({{"x\n\u001b[31m{}":1}})", std::string(5000, 'y')));
  EXPECT_THAT(error, HasSubstr("x??[31m"));
  EXPECT_LT(error.size(), 300U);
}

TEST(Safetensors, AFileCutAnywhereIsAnError) {
  const std::string file = safetensors_of({"a", "b"});
  ASSERT_EQ(error_of(file), "no error");
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_NE(error_of(file.substr(0, size)), "no error") << size;
  }
}

TEST(Safetensors, ReadsWhatTheSafetensorsPackageWrote) {
  const std::string directory = MILLRACE_SOURCE_DIR "/tests/golden/checkpoint/";
  const Result<std::unique_ptr<WeightSource>> source =
      open_safetensors_file(directory + "tiny.safetensors");
  ASSERT_TRUE(source) << source.error().message;
  const Result<json::value> golden = read_json_file(directory + "tiny.json");
  ASSERT_TRUE(golden);
  for (const auto& [name, expected] : golden->at("tensors").as_object()) {
    const TensorInfo* info = (*source)->find(name);
    ASSERT_NE(info, nullptr) << name;
    EXPECT_EQ(info->shape, json::value_to<std::vector<int64_t>>(expected.at("shape")));
    std::vector<float> values(static_cast<size_t>(info->num_rows() * info->row_length()));
    (*source)->read_rows(*info, 0, info->num_rows(), values);
    EXPECT_EQ(expected.at("fnv1a").as_string(), fnv1a(values)) << name;
  }
  const Result<void> readable = check_readable(*(*source)->find("i32"));
  ASSERT_FALSE(readable);
  EXPECT_EQ(readable.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(readable.error().message, HasSubstr("tensor 'i32' has dtype I32"));
  EXPECT_THAT(check_readable(*(*source)->find("fp8")).error().message, HasSubstr("dtype F8_E4M3"));
  EXPECT_EQ((*source)->find("other"), nullptr);
}

TEST(Safetensors, ReadsAnyRowsOfATensor) {
  const TestFolder directory;
  std::string data;
  for (int i = 0; i < 12; ++i) append(data, static_cast<float>(i));
  directory.write(
      "model.safetensors",
      safetensors_file(R"({"m":{"dtype":"F32","shape":[4,3],"data_offsets":[0,48]}})", data)
  );
  const Result<std::unique_ptr<WeightSource>> source = open_safetensors_directory(directory.path());
  ASSERT_TRUE(source) << source.error().message;
  std::vector<float> rows(6);
  (*source)->read_rows(*(*source)->find("m"), 1, 2, rows);
  EXPECT_EQ(rows, (std::vector<float>{3, 4, 5, 6, 7, 8}));
}

// A directory of two shards and the index that `weight_map` makes.
std::string error_of_index(const std::string& weight_map) {
  const TestFolder directory;
  directory.write("one.safetensors", safetensors_of({"a", "b"}));
  directory.write("two.safetensors", safetensors_of({"c"}));
  directory.write("model.safetensors.index.json", "{\"weight_map\":" + weight_map + "}");
  const Result<std::unique_ptr<WeightSource>> source = open_safetensors_directory(directory.path());
  if (!source) return source.error().message;
  return std::to_string((*source)->tensors().size()) + " tensors";
}

TEST(Safetensors, ReadsShards) {
  EXPECT_EQ(
      error_of_index(R"({"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"})"),
      "3 tensors"
  );
}

TEST(Safetensors, RefusesAnIndexThatDoesNotFitItsShards) {
  EXPECT_THAT(
      error_of_index(R"({"a":"one.safetensors","b":"one.safetensors","d":"two.safetensors"})"),
      HasSubstr("shard 'two.safetensors' holds tensor 'c'")
  );
  EXPECT_THAT(
      error_of_index(
          R"({"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors","d":"two.safetensors"})"
      ),
      HasSubstr("names tensor 'd', which is missing in shard 'two.safetensors'")
  );
  EXPECT_THAT(
      error_of_index(R"({"a":"one.safetensors","b":"two.safetensors","c":"two.safetensors"})"),
      HasSubstr("shard 'one.safetensors' holds tensor 'b'")
  );
  EXPECT_THAT(error_of_index("[]"), HasSubstr("\"weight_map\" must be an object"));
  EXPECT_THAT(error_of_index(R"({"a":1})"), HasSubstr("the shard of 'a' must be a string"));
  EXPECT_THAT(
      error_of_index(R"({"a":"three.safetensors"})"), HasSubstr("'three.safetensors' is missing")
  );
}

TEST(Safetensors, RefusesShardNamesThatLeaveTheDirectory) {
  for (const std::string name :
       {"../x", "/etc/passwd", "sub/x", "..", ".", "", "a\\u0000b", "a\\\\b"}) {
    EXPECT_THAT(
        error_of_index(fmt::format(R"({{"a":"{}"}})", name)), HasSubstr("not the plain name")
    ) << name;
  }
}

TEST(Safetensors, RefusesALinkThatLeavesTheDirectory) {
  const TestFolder outside;
  outside.write("x", safetensors_of({"a"}));
  const TestFolder directory;
  std::filesystem::create_symlink(outside.path("x"), directory.path("model.safetensors"));
  const Result<std::unique_ptr<WeightSource>> source = open_safetensors_directory(directory.path());
  ASSERT_FALSE(source);
  EXPECT_THAT(source.error().message, HasSubstr("a link that leaves the model directory"));
}

TEST(Safetensors, FollowsLinksWithinTheDirectoryAndIntoTheCachesBlobs) {
  const TestFolder directory;
  directory.write("real", safetensors_of({"a"}));
  std::filesystem::create_symlink("real", directory.path("model.safetensors"));
  EXPECT_TRUE(open_safetensors_directory(directory.path()));

  const TestFolder cache;
  std::filesystem::create_directories(cache.path("snapshots/abc"));
  std::filesystem::create_directories(cache.path("blobs"));
  cache.write("blobs/123", safetensors_of({"a"}));
  std::filesystem::create_symlink("../../blobs/123", cache.path("snapshots/abc/model.safetensors"));
  EXPECT_TRUE(open_safetensors_directory(cache.path("snapshots/abc")));
}

TEST(Safetensors, RefusesPickleInPlainWords) {
  for (const std::string name : {"pytorch_model.bin", "model.pt", "model.pth", "last.ckpt"}) {
    const TestFolder directory;
    directory.write(name, "\x80\x02");
    const Result<std::unique_ptr<WeightSource>> source =
        open_safetensors_directory(directory.path());
    ASSERT_FALSE(source);
    EXPECT_EQ(source.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(
        source.error().message, HasSubstr("pickle files can run code; convert to safetensors")
    );
  }
  const TestFolder empty;
  EXPECT_THAT(
      open_safetensors_directory(empty.path()).error().message, HasSubstr("holds no weights")
  );
}

}  // namespace
}  // namespace millrace
