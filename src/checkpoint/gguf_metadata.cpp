// Typed access to the metadata of a parsed GGUF file.
#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "checkpoint/gguf.h"

namespace millrace {
namespace {

Error type_error(std::string_view key, std::string_view expected) {
  return invalid_argument(
      fmt::format("GGUF: key '{}' must be {}", key, expected), std::string(key)
  );
}

// none: the value is no integer, or none that an int64_t holds.
std::optional<int64_t> as_integer(const GgufValue& value) {
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return *integer;
  const uint64_t* positive = std::get_if<uint64_t>(&value);
  if (positive == nullptr || *positive > uint64_t{std::numeric_limits<int64_t>::max()}) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*positive);
}

// Floats by their shortest decimal form, so that 1e-5F becomes 1e-5 and not 9.99999974e-06: the
// number that the file's writer read in the model's config.json.
double widen(float value) {
  const std::string text = fmt::format("{}", value);
  return std::strtod(text.c_str(), nullptr);
}

template <class T>
T element_at(const GgufArray& array, uint64_t i) {
  T value;
  std::memcpy(&value, array.bytes.data() + i * sizeof(T), sizeof value);
  return value;
}

}  // namespace

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  for (const GgufTensor& tensor : tensors_) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

Result<std::optional<int64_t>> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<int64_t>();
  const std::optional<int64_t> integer = as_integer(*value);
  if (!integer) return type_error(key, "an integer");
  return integer;
}

Result<std::optional<double>> GgufFile::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<double>();
  if (const float* number = std::get_if<float>(value)) return std::optional(widen(*number));
  if (const double* number = std::get_if<double>(value)) return std::optional(*number);
  const std::optional<int64_t> integer = as_integer(*value);
  if (!integer) return type_error(key, "a number");
  return std::optional(static_cast<double>(*integer));
}

Result<std::optional<bool>> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  const bool* boolean = std::get_if<bool>(value);
  if (boolean == nullptr) return type_error(key, "a bool");
  return std::optional(*boolean);
}

Result<std::optional<std::string>> GgufFile::string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::string>();
  const std::string_view* string = std::get_if<std::string_view>(value);
  if (string == nullptr) return type_error(key, "a string");
  return std::optional(std::string(*string));
}

Result<std::optional<std::vector<std::string>>> GgufFile::strings(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::vector<std::string>>();
  const GgufArray* array = std::get_if<GgufArray>(value);
  if (array == nullptr || array->element != GgufValueType::kString) {
    return type_error(key, "an array of strings");
  }
  std::vector<std::string> strings;
  strings.reserve(array->count);  // bounded: the parser saw 8 bytes of the file for each
  const std::byte* at = array->bytes.data();
  for (uint64_t i = 0; i < array->count; ++i) {
    uint64_t length = 0;
    std::memcpy(&length, at, sizeof length);
    at += sizeof length;
    strings.emplace_back(reinterpret_cast<const char*>(at), length);
    at += length;
  }
  return std::optional(std::move(strings));
}

Result<std::optional<std::vector<float>>> GgufFile::floats(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::vector<float>>();
  const GgufArray* array = std::get_if<GgufArray>(value);
  if (array == nullptr || array->element != GgufValueType::kFloat32) {
    return type_error(key, "an array of float32");
  }
  std::vector<float> floats(array->count);
  if (!floats.empty()) std::memcpy(floats.data(), array->bytes.data(), array->bytes.size());
  return std::optional(std::move(floats));
}

Result<std::optional<std::vector<int32_t>>> GgufFile::integers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::optional<std::vector<int32_t>>();
  const GgufArray* array = std::get_if<GgufArray>(value);
  const bool has_type = array != nullptr && (array->element == GgufValueType::kInt32 ||
                                             array->element == GgufValueType::kUint32);
  if (!has_type) return type_error(key, "an array of int32");
  std::vector<int32_t> integers;
  integers.reserve(array->count);
  for (uint64_t i = 0; i < array->count; ++i) {
    // A uint32 above the range becomes negative; no list that is read here allows negatives.
    integers.push_back(element_at<int32_t>(*array, i));
  }
  return std::optional(std::move(integers));
}

}  // namespace millrace
