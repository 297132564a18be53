#include "divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace millrace {
namespace {

std::vector<double> log_softmax(std::span<const float> logits) {
  const auto peak = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - peak);
  const double shift = peak + std::log(sum);
  std::vector<double> result(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) result[i] = static_cast<double>(logits[i]) - shift;
  return result;
}

}  // namespace

void Divergence::add(
    std::span<const float> base_logits, std::span<const float> logits, TokenId next
) {
  const std::vector<double> p = log_softmax(base_logits);
  const std::vector<double> q = log_softmax(logits);
  double sum = 0.0;
  for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i]) * (p[i] - q[i]);
  kl_.push_back(sum);
  num_changed_ += largest(base_logits) != largest(logits) ? 1 : 0;
  base_loss_ -= p[static_cast<size_t>(next)];
  loss_ -= q[static_cast<size_t>(next)];
}

double Divergence::mean_kl() const {
  return std::accumulate(kl_.begin(), kl_.end(), 0.0) / static_cast<double>(kl_.size());
}

double Divergence::standard_error() const {
  const double mean = mean_kl();
  double sum = 0.0;
  for (const double kl : kl_) sum += (kl - mean) * (kl - mean);
  return std::sqrt(sum) / static_cast<double>(kl_.size());
}

double Divergence::quantile_kl(double part) const {
  std::vector<double> sorted = kl_;
  std::ranges::sort(sorted);
  const auto index = static_cast<size_t>(part * static_cast<double>(sorted.size()));
  return sorted[std::min(index, sorted.size() - 1)];
}

double Divergence::base_perplexity() const {
  return std::exp(base_loss_ / static_cast<double>(kl_.size()));
}

double Divergence::perplexity() const {
  return std::exp(loss_ / static_cast<double>(kl_.size()));
}

std::string Divergence::row(std::string_view name) const {
  return fmt::format(
      "| {} | {} | {:.6f} | {:.5f} | {:.4f} | {} | {:.4f} | {:.4f} |",
      name,
      num_tokens(),
      mean_kl(),
      quantile_kl(0.99),
      quantile_kl(1.0),
      num_changed_,
      base_perplexity(),
      perplexity()
  );
}

TokenId largest(std::span<const float> logits) {
  return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
}

double margin(std::span<const float> logits) {
  float first = -std::numeric_limits<float>::infinity();
  float second = first;
  for (const float logit : logits) {
    second = std::max(second, std::min(first, logit));
    first = std::max(first, logit);
  }
  return static_cast<double>(first) - static_cast<double>(second);
}

AnswerLogits answer_logits(CpuModel& model, std::span<const Answer> answers) {
  AnswerLogits logits;
  for (const Answer& answer : answers) {
    const std::span<const float> rows = forward(model, answer);
    logits.emplace_back(rows.begin(), rows.end());
  }
  return logits;
}

Divergence compare(
    const AnswerLogits& base_logits, CpuModel& model, std::span<const Answer> answers
) {
  Divergence divergence;
  const auto vocab_size = static_cast<size_t>(model.vocab_size());
  for (size_t i = 0; i < answers.size(); ++i) {
    const Answer& answer = answers[i];
    const std::span<const float> expected = base_logits[i];
    const std::span<const float> found = forward(model, answer);
    for (size_t row = 0; row < answer.num_answer_tokens; ++row) {
      divergence.add(
          expected.subspan(row * vocab_size, vocab_size),
          found.subspan(row * vocab_size, vocab_size),
          answer.token(row)
      );
    }
  }
  return divergence;
}

}  // namespace millrace
