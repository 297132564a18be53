#include "checkpoint/safetensors_writer.h"

#include <fmt/format.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "base/check.h"
#include "base/json.h"
#include "base/math.h"

namespace millrace {
namespace {

constexpr size_t kAlignment = 64;

// The header's length and its JSON, padded with spaces.
std::string header_of(std::span<const TensorToWrite> tensors) {
  json::object header = {{"__metadata__", {{"format", "pt"}}}};
  size_t offset = 0;
  for (const TensorToWrite& tensor : tensors) {
    json::array shape(tensor.shape.begin(), tensor.shape.end());
    header[tensor.name] = {
        {"dtype", tensor.dtype},
        {"shape", std::move(shape)},
        {"data_offsets", {offset, offset + tensor.num_bytes}}};
    offset += tensor.num_bytes;
  }
  std::string text = json::serialize(header);
  text.resize(round_up(sizeof(uint64_t) + text.size(), kAlignment) - sizeof(uint64_t), ' ');
  static_assert(std::endian::native == std::endian::little);
  const uint64_t length = text.size();
  std::string result(sizeof length, '\0');
  std::memcpy(result.data(), &length, sizeof length);
  return result + text;
}

Error write_error(const std::string& path) {
  return Error{
      ErrorCode::kInternal,
      fmt::format("cannot write '{}': {}", path, std::generic_category().message(errno)),
      path};
}

}  // namespace

Result<void> write_safetensors(
    const std::string& path, std::span<const TensorToWrite> tensors, const WriteProgress& progress
) {
  const std::string unfinished = path + ".part";
  std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
  file << header_of(tensors);
  for (size_t i = 0; i < tensors.size() && file; ++i) {
    size_t num_put = 0;
    tensors[i].write([&](std::span<const std::byte> bytes) {
      num_put += bytes.size();
      file.write(
          reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size())
      );
    });
    CHECK(num_put == tensors[i].num_bytes, "a tensor puts as many bytes as it has");
    if (progress) progress(i + 1, tensors.size());
  }
  file.close();
  std::error_code failed;
  if (file) std::filesystem::rename(unfinished, path, failed);
  if (file && !failed) return {};
  const Error error = write_error(path);
  std::filesystem::remove(unfinished, failed);
  return error;
}

}  // namespace millrace
