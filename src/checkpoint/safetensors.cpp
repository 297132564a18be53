#include "checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/dequantize.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/printable.h"
#include "checkpoint/tensor_index.h"

namespace millrace {
namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr size_t kShardsMax = 4096;

class SafetensorsSource : public WeightSource {
 public:
  SafetensorsSource(
      std::vector<MappedFile> files,
      TensorIndex index,
      std::vector<std::span<const std::byte>> bytes
  )
      : files_(std::move(files)), index_(std::move(index)), bytes_(std::move(bytes)) {}

  std::span<const TensorInfo> tensors() const override { return index_.tensors(); }
  const TensorInfo* find(std::string_view name) const override { return index_.find(name); }

  void read_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
  ) const override {
    const std::span<const std::byte> bytes = bytes_[index_.position_of(tensor)];
    check_rows(tensor, row_begin, num_rows, out.size());
    const auto row_length = static_cast<size_t>(tensor.row_length());
    const size_t row_bytes = row_length * block_layout(tensor.storage).block_bytes;
    dequantize(
        tensor.storage,
        bytes.subspan(
            static_cast<size_t>(row_begin) * row_bytes, static_cast<size_t>(num_rows) * row_bytes
        ),
        out
    );
  }

  std::span<const std::byte> raw_bytes(const TensorInfo& tensor) const override {
    return bytes_[index_.position_of(tensor)];
  }

 private:
  std::vector<MappedFile> files_;  // bytes_ lie within them
  TensorIndex index_;
  std::vector<std::span<const std::byte>> bytes_;  // by position in index_
};

// Gathers the tensors of one or more files.
class Builder {
 public:
  Result<void> add_file(const std::string& path) {
    Result<MappedFile> file = MappedFile::open(path);
    if (!file) return file.error();
    file->advise_sequential();
    Result<SafetensorsHeader> header = parse_safetensors(file->bytes());
    if (!header) {
      return invalid_argument(fmt::format("{}: {}", path, header.error().message), path);
    }
    for (SafetensorsTensor& tensor : header->tensors) {
      infos_.push_back(std::move(tensor.info));
      bytes_.push_back(tensor.bytes);
    }
    files_.push_back(std::move(*file));
    return {};
  }

  std::span<const TensorInfo> infos() const { return infos_; }

  Result<std::unique_ptr<WeightSource>> build() && {
    Result<TensorIndex> index = TensorIndex::build(std::move(infos_));
    if (!index) return index.error();
    return std::unique_ptr<WeightSource>(
        std::make_unique<SafetensorsSource>(std::move(files_), std::move(*index), std::move(bytes_))
    );
  }

 private:
  std::vector<MappedFile> files_;
  std::vector<TensorInfo> infos_;
  std::vector<std::span<const std::byte>> bytes_;
};

// Tensor names by shard name.
using WeightMap = std::map<std::string, std::set<std::string>>;

Result<WeightMap> read_weight_map(const std::string& path) {
  const Result<json::value> parsed = read_json_file(path);
  if (!parsed) return parsed.error();
  const json::object* root = parsed->if_object();
  const json::value* value = root == nullptr ? nullptr : root->if_contains("weight_map");
  const json::object* entries = value == nullptr ? nullptr : value->if_object();
  if (entries == nullptr) {
    return invalid_argument(
        fmt::format("{}: \"weight_map\" must be an object of shard names", kIndexFile), "weight_map"
    );
  }
  WeightMap map;
  for (const auto& [name, shard] : *entries) {
    if (!shard.is_string()) {
      return invalid_argument(
          fmt::format(
              "{}: the shard of '{}' must be a string",
              kIndexFile,
              printable({name.data(), name.size()})
          ),
          "weight_map"
      );
    }
    map[std::string(shard.get_string())].emplace(name);
  }
  if (map.size() > kShardsMax) {
    return invalid_argument(
        fmt::format("{}: {} shards; at most {}", kIndexFile, map.size(), kShardsMax), "weight_map"
    );
  }
  return map;
}

// `named`: what the index says lies in the shard; `found`: what does.
Result<void> check_shard(
    const std::string& shard, const std::set<std::string>& named, std::span<const TensorInfo> found
) {
  std::set<std::string_view> found_names;
  for (const TensorInfo& info : found) {
    found_names.insert(info.name);
    if (!named.contains(info.name)) {
      return invalid_argument(
          fmt::format(
              "shard '{}' holds tensor '{}', which {} does not place there",
              printable(shard),
              printable(info.name),
              kIndexFile
          ),
          printable(info.name)
      );
    }
  }
  for (const std::string& name : named) {
    if (!found_names.contains(name)) {
      return invalid_argument(
          fmt::format(
              "{} names tensor '{}', which is missing in shard '{}'",
              kIndexFile,
              printable(name),
              printable(shard)
          ),
          printable(name)
      );
    }
  }
  return {};
}

Result<std::unique_ptr<WeightSource>> open_shards(const std::string& directory) {
  const Result<std::string> index_path = resolve_model_file(directory, kIndexFile);
  if (!index_path) return index_path.error();
  const Result<WeightMap> map = read_weight_map(*index_path);
  if (!map) return map.error();
  Builder builder;
  for (const auto& [shard, names] : *map) {
    const Result<std::string> path = resolve_model_file(directory, shard);
    if (!path) return path.error();
    const size_t num_before = builder.infos().size();
    const Result<void> added = builder.add_file(*path);
    if (!added) return added.error();
    const Result<void> same = check_shard(shard, names, builder.infos().subspan(num_before));
    if (!same) return same.error();
  }
  return std::move(builder).build();
}

// Why a directory without safetensors cannot be loaded.
Error no_weights_error(const ModelDirectory& directory) {
  for (const std::string_view suffix : {".bin", ".pt", ".pth", ".ckpt", ".pkl"}) {
    const std::vector<std::string> names = directory.names_ending_in(suffix);
    if (names.empty()) continue;
    return unsupported(
        fmt::format(
            "'{}' holds its weights as pickle only ('{}'): pickle files can run code; "
            "convert to safetensors",
            printable(directory.path),
            printable(names.front())
        ),
        directory.path
    );
  }
  return not_found(
      fmt::format(
          "'{}' holds no weights: expected {} or {}",
          printable(directory.path),
          kSingleFile,
          kIndexFile
      ),
      directory.path
  );
}

}  // namespace

Result<std::unique_ptr<WeightSource>> open_safetensors_file(const std::string& path) {
  Builder builder;
  const Result<void> added = builder.add_file(path);
  if (!added) return added.error();
  return std::move(builder).build();
}

Result<std::unique_ptr<WeightSource>> open_safetensors_directory(const std::string& directory) {
  const Result<ModelDirectory> listing = list_model_directory(directory);
  if (!listing) return listing.error();
  if (listing->has(kSingleFile)) {
    const Result<std::string> path = resolve_model_file(directory, kSingleFile);
    if (!path) return path.error();
    return open_safetensors_file(*path);
  }
  if (listing->has(kIndexFile)) return open_shards(directory);
  return no_weights_error(*listing);
}

}  // namespace millrace
