// Any bytes as a safetensors file: parsed or refused, and what is parsed lies within the bytes.
#include <cstdint>

#include "base/check.h"
#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const Result<SafetensorsHeader> header = parse_safetensors(file);
  if (!header) {
    CHECK(!header.error().message.empty(), "an error that says nothing");
    return 0;
  }
  for (const SafetensorsTensor& tensor : header->tensors) {
    CHECK(
        tensor.bytes.empty() || (tensor.bytes.data() >= file.data() &&
                                 tensor.bytes.data() + tensor.bytes.size() <= file.data() + size),
        "a tensor outside of the file"
    );
  }
  return 0;
}
