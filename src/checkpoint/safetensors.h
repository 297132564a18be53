// The safetensors format: a header of JSON, then the tensors' bytes. Files are mapped, never
// copied. Source: the format's description at https://github.com/huggingface/safetensors, "Format".
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "checkpoint/weight_source.h"

namespace millrace {

struct SafetensorsLimits {
  size_t header_bytes_max = 100'000'000;  // the format's own limit
  size_t rank_max = 8;
};

struct SafetensorsTensor {
  TensorInfo info;
  std::span<const std::byte> bytes;  // within the file; no alignment is promised
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;  // in the order of their bytes
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Reads the header of a whole file and checks every rule of the format: the length, strict JSON
// that begins with '{', no key twice, metadata of strings alone, known dtypes, shape times dtype
// equal to the bytes, and bytes that cover the rest of the file without a gap or an overlap. The
// result borrows `file`.
Result<SafetensorsHeader> parse_safetensors(
    std::span<const std::byte> file, const SafetensorsLimits& limits = {}
);

// One file.
Result<std::unique_ptr<WeightSource>> open_safetensors_file(const std::string& path);

// `model.safetensors` of the directory, or the shards that `model.safetensors.index.json` names.
// A shard must lie in the directory itself; the index and the shards must name the same tensors,
// each in one shard. A directory with pickle files only is refused.
Result<std::unique_ptr<WeightSource>> open_safetensors_directory(const std::string& directory);

}  // namespace millrace
