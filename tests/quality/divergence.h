// Two models' distributions over the next token, side by side.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "loaded_model.h"

namespace millrace {

// What one model's logits are beside the base's, token by token.
class Divergence {
 public:
  // Each: [vocab_size]. `next`: the token that follows in the text.
  void add(std::span<const float> base_logits, std::span<const float> logits, TokenId next);

  size_t num_tokens() const { return kl_.size(); }
  double mean_kl() const;
  // Of the tokens' KL(base || model); `part`: 0 to 1.
  double quantile_kl(double part) const;
  // Of the mean, over tokens.
  double standard_error() const;
  int32_t num_changed() const { return num_changed_; }  // tokens with another largest logit
  double base_perplexity() const;
  double perplexity() const;

  // | name | tokens | mean KL | p99 | max | changed argmax | perplexity of the base | perplexity |
  std::string row(std::string_view name) const;

 private:
  std::vector<double> kl_;
  int32_t num_changed_ = 0;
  double base_loss_ = 0.0;
  double loss_ = 0.0;
};

// The index of the largest; of equal ones the first, as greedy decoding chooses.
TokenId largest(std::span<const float> logits);

// The largest logit less the second: what the two tokens' logprobs differ by.
double margin(std::span<const float> logits);

// Of each answer the logits from which its tokens are chosen, [num_answer_tokens, vocab_size].
// Kept, because several models are compared with one.
using AnswerLogits = std::vector<std::vector<float>>;
AnswerLogits answer_logits(CpuModel& model, std::span<const Answer> answers);

// Over all tokens of all answers.
Divergence compare(
    const AnswerLogits& base_logits, CpuModel& model, std::span<const Answer> answers
);

}  // namespace millrace
