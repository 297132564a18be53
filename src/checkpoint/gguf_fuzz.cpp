// Any bytes as a GGUF file: everything that can be asked of it is asked.
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "checkpoint/dequantize.h"
#include "checkpoint/gguf.h"
#include "checkpoint/gguf_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const Result<GgufFile> file = GgufFile::parse(bytes);
  if (!file) {
    CHECK(!file.error().message.empty(), "an error that says nothing");
    return 0;
  }
  (void)gguf_config(*file);
  (void)gguf_vocabulary(*file);
  (void)gguf_chat_template(*file);
  for (const GgufTensor& tensor : file->tensors()) {
    if (tensor.storage == StorageType::kOther) continue;
    const BlockLayout layout = block_layout(tensor.storage);
    std::vector<float> values(tensor.bytes.size() / layout.block_bytes * layout.block_elements);
    dequantize(tensor.storage, tensor.bytes, values);
  }
  return 0;
}
