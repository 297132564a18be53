// Which experts each token of a batch is given to, and the order in which the tokens of one expert
// stand together, so that each expert's weights are read once for all of its tokens.
//
// A router's logits become probabilities (softmax, float32); a token takes the likeliest experts,
// of equal ones those of lower index, as transformers does. A token's routes depend on its logits
// alone, and what its experts say is added up in the order of their probabilities: a token's result
// never depends on its neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/executor.h"
#include "kernels/experts/row_groups.h"
#include "kernels/rows.h"

namespace millrace {

struct ExpertChoice {
  size_t num_experts = 0;
  size_t num_per_token = 0;  // at most num_experts
  bool normalizes = false;   // the weights of a token's experts are made to sum up to 1
};

// Storage for the routes of up to so many tokens, filled anew for each layer.
class ExpertRoutes {
 public:
  ExpertRoutes() = default;
  ExpertRoutes(const ExpertChoice& choice, size_t num_tokens_max);
  static size_t num_bytes(const ExpertChoice& choice, size_t num_tokens_max);

  // `logits`: [num_tokens, num_experts]; what stands there is lost. Logits that are no numbers
  // choose some experts all the same.
  void choose(const Executor& executor, Rows logits);

  size_t num_rows() const { return num_tokens_ * choice_.num_per_token; }
  // Of the experts that have tokens: `part` is the expert. Their rows are dense: [num_rows()].
  std::span<const RowGroup> groups() const { return groups_; }

  // A token's experts, likeliest first: [num_per_token].
  std::span<const int32_t> experts(size_t token) const;
  std::span<const float> weights(size_t token) const;

  // grouped row of each route = x of its token. x: [num_tokens, n]; grouped: [num_rows(), n].
  void gather(const Executor& executor, ConstRows x, Rows grouped) const;
  // out of each token += the sum over its experts of weight * their grouped row.
  void add_to(const Executor& executor, ConstRows grouped, Rows out) const;

 private:
  void choose_for(std::span<const float> probabilities, size_t token);
  void group_rows();
  void add_token_to(size_t token, ConstRows grouped, std::span<float> out) const;

  ExpertChoice choice_;
  size_t num_tokens_ = 0;
  std::vector<int32_t> experts_;  // [num_tokens, num_per_token]
  std::vector<float> weights_;    // the same
  std::vector<uint32_t> rows_;    // the same: the grouped row
  std::vector<uint32_t> begins_;  // [num_experts]: each expert's next row, while rows are dealt
  std::vector<RowGroup> groups_;
};

// out of each token += sigmoid(its gate) * x. `gates`: [num_tokens, 1]; x, out: [num_tokens, n].
void add_gated(const Executor& executor, ConstRows gates, ConstRows x, Rows out);

}  // namespace millrace
