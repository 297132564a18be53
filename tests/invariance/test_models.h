// The models that the mixes run: tiny ones of random weights, made anew for each engine, and real
// ones, of which a few set-ups are loaded once and shared by engines.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "model/cpu_model.h"

namespace millrace {

// What of a model may differ between engines without showing in any result.
struct ModelSetup {
  int32_t block_size = 16;
  size_t num_threads = 1;
  Isa isa = best_isa();
  friend auto operator<=>(const ModelSetup&, const ModelSetup&) = default;
};

// Limits of every model here: larger than any mix needs.
constexpr int32_t kModelLenMax = 512;
constexpr int32_t kPoolTokensMax = 8192;

class TestModel {
 public:
  virtual ~TestModel() = default;
  virtual std::string name() const = 0;
  virtual int64_t vocab_size() const = 0;
  virtual std::vector<TokenId> eos_token_ids() const = 0;
  // The set-ups that engines may have; the first is the one for the oracle.
  virtual std::vector<ModelSetup> setups() const = 0;
  // A model with kPoolTokensMax token slots and a hidden slot for each block. Shared by engines
  // that run one after the other: what the blocks hold at first is what the last one left.
  virtual std::shared_ptr<CpuModel> load(const ModelSetup& setup) = 0;
};

std::unique_ptr<TestModel> make_tiny_model(ModelFamily family, const WeightFormat& format);

// `path`: of a checkpoint.
std::unique_ptr<TestModel> make_real_model(const std::string& path);

}  // namespace millrace
