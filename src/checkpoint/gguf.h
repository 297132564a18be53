// The container format of GGUF version 3: typed metadata and tensors, before any of it is given a
// meaning. Every count, length, offset and product is checked before it is used or allocated for.
// Source: the GGUF specification in the ggml repository, docs/gguf.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "checkpoint/weight_source.h"

namespace millrace {

enum class GgufValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// An array as it lies in the file; its extent and the strings in it are checked already.
struct GgufArray {
  GgufValueType element = GgufValueType::kUint8;
  uint64_t count = 0;
  std::span<const std::byte> bytes;
};

// Integers are widened; a float32 keeps its type so that it can be told from a double.
using GgufValue = std::variant<uint64_t, int64_t, float, double, bool, std::string_view, GgufArray>;

struct GgufTensor {
  std::string name;
  StorageType storage = StorageType::kOther;
  std::string_view type_name;        // "IQ2_S": the format's name of the type
  std::vector<int64_t> shape;        // outermost first, reversed from the file's order
  std::span<const std::byte> bytes;  // within the file
};

struct GgufLimits {
  uint64_t metadata_max = 1 << 16;  // key-value pairs
  uint64_t tensors_max = 1 << 20;
  uint64_t key_bytes_max = 65'535;  // the specification's own limit
  uint64_t name_bytes_max = 1024;   // of a tensor
  uint64_t dimension_max = 1ULL << 31;
  int array_depth_max = 4;  // arrays in arrays
};

// The parsed file. Borrows the bytes it was parsed from.
class GgufFile {
 public:
  // `file`: the whole file. A file cut anywhere is an error.
  static Result<GgufFile> parse(std::span<const std::byte> file, const GgufLimits& limits = {});

  std::span<const GgufTensor> tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;

  const GgufValue* find(std::string_view key) const;

  // A file of the same metadata and no tensors: enough for a vocabulary and a chat template.
  std::string without_tensors() const;

  // Typed metadata: none when the key is absent, an error naming the key when it has another type.
  Result<std::optional<int64_t>> integer(std::string_view key) const;
  Result<std::optional<double>> number(std::string_view key) const;  // of any numeric type
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string>> string(std::string_view key) const;
  Result<std::optional<std::vector<std::string>>> strings(std::string_view key) const;
  Result<std::optional<std::vector<float>>> floats(std::string_view key) const;
  Result<std::optional<std::vector<int32_t>>> integers(std::string_view key) const;

 private:
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::span<const std::byte> metadata_bytes_;
  std::vector<GgufTensor> tensors_;  // in the file's order
};

}  // namespace millrace
