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

Error write_error(const std::string& path, const std::error_code& reason) {
  return Error{
      ErrorCode::kInternal, fmt::format("cannot write '{}': {}", path, reason.message()), path};
}

// A file that remembers why the first write failed: what is called between writes may set errno.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path) : file_(path, std::ios::binary | std::ios::trunc) {
    check();
  }
  void write(std::span<const std::byte> bytes) {
    if (reason_) return;
    file_.write(
        reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size())
    );
    check();
  }
  // Why something of the file is not written; none: all of it is.
  std::error_code close() {
    file_.close();
    check();
    return reason_;
  }
  bool has_failed() const { return bool(reason_); }

 private:
  void check() {
    if (!file_ && !reason_) reason_ = std::error_code(errno, std::generic_category());
  }

  std::ofstream file_;
  std::error_code reason_;
};

}  // namespace

Result<void> write_safetensors(
    const std::string& path, std::span<const TensorToWrite> tensors, const WriteProgress& progress
) {
  const std::string unfinished = path + ".part";
  OutputFile file(unfinished);
  const std::string header = header_of(tensors);
  file.write(std::as_bytes(std::span(header)));
  for (size_t i = 0; i < tensors.size() && !file.has_failed(); ++i) {
    size_t num_put = 0;
    tensors[i].write([&](std::span<const std::byte> bytes) {
      num_put += bytes.size();
      file.write(bytes);
    });
    CHECK(num_put == tensors[i].num_bytes, "a tensor puts as many bytes as it has");
    if (progress) progress(i + 1, tensors.size());
  }
  std::error_code reason = file.close();
  if (!reason) std::filesystem::rename(unfinished, path, reason);
  if (!reason) return {};
  std::error_code ignored;
  std::filesystem::remove(unfinished, ignored);
  return write_error(path, reason);
}

}  // namespace millrace
