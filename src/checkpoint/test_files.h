// For tests only: small checkpoint files made on the spot, right ones and wrong ones.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::testing_files {

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

template <class T>
void append(std::string& to, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}

// The 64-bit FNV-1a hash of float32 values, as the generators of goldens write it.
inline std::string fnv1a(std::span<const float> values) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  for (size_t i = 0; i < values.size_bytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3ULL;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

// A safetensors file of any header text and any data.
inline std::string safetensors_file(const std::string& header, const std::string& data) {
  std::string file;
  append<uint64_t>(file, header.size());
  return file + header + data;
}

// One F32 vector for each name; the k-th tensor holds k, k + 1.
inline std::string safetensors_of(const std::vector<std::string>& names) {
  std::string header = "{";
  std::string data;
  for (size_t i = 0; i < names.size(); ++i) {
    header += fmt::format(
        R"({}"{}":{{"dtype":"F32","shape":[2],"data_offsets":[{},{}]}})",
        i == 0 ? "" : ",",
        names[i],
        8 * i,
        8 * i + 8
    );
    append(data, static_cast<float>(i));
    append(data, static_cast<float>(i + 1));
  }
  return safetensors_file(header + "}", data);
}

// Writes GGUF field by field, so that tests can write it wrong.
class GgufWriter {
 public:
  GgufWriter& string(std::string_view key, std::string_view value) {
    begin_value(key, 8);
    append_string(metadata_, value);
    return *this;
  }
  GgufWriter& uint32(std::string_view key, uint32_t value) {
    begin_value(key, 4);
    append(metadata_, value);
    return *this;
  }
  GgufWriter& float32(std::string_view key, float value) {
    begin_value(key, 6);
    append(metadata_, value);
    return *this;
  }
  GgufWriter& boolean(std::string_view key, uint8_t value) {
    begin_value(key, 7);
    append(metadata_, value);
    return *this;
  }
  GgufWriter& strings(std::string_view key, const std::vector<std::string>& values) {
    begin_array(key, 8, values.size());
    for (const std::string& value : values) append_string(metadata_, value);
    return *this;
  }
  template <class T>
  GgufWriter& numbers(std::string_view key, uint32_t type, const std::vector<T>& values) {
    begin_array(key, type, values.size());
    for (const T value : values) append(metadata_, value);
    return *this;
  }
  // Bytes after a key, as they are: the type and the value.
  GgufWriter& raw(std::string_view key, const std::string& bytes) {
    append_string(metadata_, key);
    metadata_ += bytes;
    ++num_metadata_;
    return *this;
  }

  // `dims` in the file's order, innermost first. The data lies behind what is there already.
  GgufWriter& tensor(
      std::string_view name, std::vector<uint64_t> dims, uint32_t type, const std::string& data
  ) {
    data_.resize((data_.size() + 31) / 32 * 32);
    tensor_at(name, std::move(dims), type, data_.size());
    data_ += data;
    return *this;
  }
  GgufWriter& tensor_at(
      std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset
  ) {
    append_string(tensors_, name);
    append(tensors_, static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) append(tensors_, dim);
    append(tensors_, type);
    append(tensors_, offset);
    ++num_tensors_;
    return *this;
  }
  GgufWriter& f32(std::string_view name, std::vector<uint64_t> dims) {
    uint64_t count = 1;
    for (const uint64_t dim : dims) count *= dim;
    std::string data;
    for (uint64_t i = 0; i < count; ++i) append(data, static_cast<float>(i));
    return tensor(name, std::move(dims), 0, data);
  }

  // Everything before the data and its padding.
  std::string header() const {
    std::string file = "GGUF";
    append<uint32_t>(file, 3);
    append(file, num_tensors_);
    append(file, num_metadata_);
    return file + metadata_ + tensors_;
  }
  std::string file() const {
    std::string file = header();
    if (num_tensors_ != 0) file.resize((file.size() + 31) / 32 * 32);
    return file + data_;
  }

 private:
  static void append_string(std::string& to, std::string_view value) {
    append<uint64_t>(to, value.size());
    to += value;
  }
  void begin_value(std::string_view key, uint32_t type) {
    append_string(metadata_, key);
    append(metadata_, type);
    ++num_metadata_;
  }
  void begin_array(std::string_view key, uint32_t type, uint64_t count) {
    begin_value(key, 9);
    append(metadata_, type);
    append(metadata_, count);
  }

  uint64_t num_tensors_ = 0;
  uint64_t num_metadata_ = 0;
  std::string metadata_;
  std::string tensors_;
  std::string data_;
};

}  // namespace millrace::testing_files
