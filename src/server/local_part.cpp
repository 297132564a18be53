#include "server/local_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "model/tensor_parallel.h"

namespace millrace {
namespace {

// Rank 0's options, whose group is the receiver's own.
CpuModelOptions broadcast_options(CpuModelOptions options, ProcessGroup& group) {
  static_assert(std::is_trivially_copyable_v<CpuModelOptions>);
  std::vector<std::byte> message(sizeof(options));
  std::memcpy(message.data(), &options, sizeof(options));
  group.broadcast(message);
  CHECK(message.size() == sizeof(options), "all ranks are one program");
  std::memcpy(&options, message.data(), sizeof(options));
  options.group = &group;
  return options;
}

Result<std::unique_ptr<CpuModel>> load_part(
    const ModelConfig& config,
    const WeightSource& source,
    const CpuModelOptions& options,
    ThreadPool& pool,
    const LoadProgress& progress
) {
  const ModelShard shard = shard_of(*options.group);
  const Result<ModelConfig> part = shard_config(config, shard);
  if (!part) return part.error();
  const auto weights = ShardedWeights::make(config, shard, source);
  if (!weights) return weights.error();
  return CpuModel::load(*part, **weights, options, pool, progress);
}

// The ranks that could not load their parts. Waits for all.
std::vector<int32_t> find_failed(bool is_loaded, ProcessGroup& group) {
  const float own = is_loaded ? 1.0F : 0.0F;
  std::vector<float> all(static_cast<size_t>(group.world_size()));
  group.all_gather({&own, 1}, all);
  std::vector<int32_t> failed;
  for (int32_t rank = 0; rank < group.world_size(); ++rank) {
    if (all[static_cast<size_t>(rank)] == 0.0F) failed.push_back(rank);
  }
  return failed;
}

}  // namespace

ModelShard shard_of(const ProcessGroup& group) {
  return {.rank = group.rank(), .world_size = group.world_size()};
}

Result<std::unique_ptr<CpuModel>> load_leading_part(
    const ModelConfig& config,
    const WeightSource& source,
    const CpuModelOptions& options,
    ThreadPool& pool,
    const LoadProgress& progress
) {
  ProcessGroup& group = *options.group;
  (void)broadcast_options(options, group);
  Result<std::unique_ptr<CpuModel>> part = load_part(config, source, options, pool, progress);
  const std::vector<int32_t> failed = find_failed(part.ok(), group);
  if (!part) return part.error();
  if (!failed.empty()) {
    return Error{
        ErrorCode::kInternal,
        fmt::format(
            "rank {} of {} could not load its part of the model", failed.front(), group.world_size()
        )};
  }
  return part;
}

Result<void> follow_shared_model(
    const ModelConfig& config, const WeightSource& source, ProcessGroup& group, ThreadPool& pool
) {
  const CpuModelOptions options = broadcast_options({}, group);
  const Result<std::unique_ptr<CpuModel>> part = load_part(config, source, options, pool, {});
  const std::vector<int32_t> failed = find_failed(part.ok(), group);
  if (!failed.empty() && failed.front() != group.rank()) {
    return Error{
        ErrorCode::kCancelled,
        fmt::format("rank {} could not load its part of the model", failed.front())};
  }
  if (!part) return part.error();
  follow_batches(**part, group);
  return {};
}

}  // namespace millrace
