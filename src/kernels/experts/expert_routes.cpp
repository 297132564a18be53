#include "kernels/experts/expert_routes.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/exp.h"

namespace millrace {
namespace {

// Makes probabilities of logits.
void softmax(Isa isa, std::span<float> values) {
  const float peak = *std::ranges::max_element(values);
  for (float& value : values) value -= peak;
  exp_in_place(isa, values);
  float sum = 0.0F;
  for (const float value : values) sum += value;
  for (float& value : values) value /= sum;
}

// The largest value that is not yet taken; of equal ones the first.
size_t likeliest(std::span<const float> values, std::span<const int32_t> taken) {
  size_t best = values.size();
  for (size_t i = 0; i < values.size(); ++i) {
    if (best < values.size() && !(values[i] > values[best])) continue;
    if (std::ranges::find(taken, static_cast<int32_t>(i)) == taken.end()) best = i;
  }
  return best;
}

}  // namespace

ExpertRoutes::ExpertRoutes(const ExpertChoice& choice, size_t num_tokens_max)
    : choice_(choice),
      experts_(num_tokens_max * choice.num_per_token),
      weights_(num_tokens_max * choice.num_per_token),
      rows_(num_tokens_max * choice.num_per_token),
      begins_(choice.num_experts) {
  groups_.reserve(choice.num_experts);
}

size_t ExpertRoutes::num_bytes(const ExpertChoice& choice, size_t num_tokens_max) {
  const size_t route_bytes = sizeof(int32_t) + sizeof(float) + sizeof(uint32_t);
  return num_tokens_max * choice.num_per_token * route_bytes +
         choice.num_experts * (sizeof(uint32_t) + sizeof(RowGroup));
}

void ExpertRoutes::choose(const Executor& executor, Rows logits) {
  CHECK(logits.num_columns == choice_.num_experts, "a logit for each expert");
  CHECK(logits.num_rows * choice_.num_per_token <= experts_.size(), "no more tokens than at load");
  num_tokens_ = logits.num_rows;
  executor.for_row_ranges(
      num_tokens_,
      choice_.num_experts * (choice_.num_per_token + 1),
      [&](size_t begin, size_t end) {
        for (size_t token = begin; token < end; ++token) {
          const std::span<float> row(logits.row(token), logits.num_columns);
          softmax(executor.isa, row);
          choose_for(row, token);
        }
      }
  );
  group_rows();
}

void ExpertRoutes::choose_for(std::span<const float> probabilities, size_t token) {
  const size_t begin = token * choice_.num_per_token;
  float sum = 0.0F;
  for (size_t i = 0; i < choice_.num_per_token; ++i) {
    const size_t expert = likeliest(probabilities, std::span(experts_).subspan(begin, i));
    experts_[begin + i] = static_cast<int32_t>(expert);
    weights_[begin + i] = probabilities[expert];
    sum += probabilities[expert];
  }
  if (!choice_.normalizes) return;
  for (size_t i = 0; i < choice_.num_per_token; ++i) weights_[begin + i] /= sum;
}

// Deals the grouped rows: expert after expert, of one the tokens in their order.
void ExpertRoutes::group_rows() {
  const std::span<const int32_t> experts = std::span(experts_).first(num_rows());
  std::ranges::fill(begins_, 0U);
  for (const int32_t expert : experts) ++begins_[static_cast<size_t>(expert)];
  groups_.clear();
  uint32_t row = 0;
  for (size_t expert = 0; expert < choice_.num_experts; ++expert) {
    const uint32_t count = begins_[expert];
    if (count > 0) groups_.push_back({.part = expert, .row_begin = row, .num_rows = count});
    begins_[expert] = row;
    row += count;
  }
  for (size_t route = 0; route < experts.size(); ++route) {
    rows_[route] = begins_[static_cast<size_t>(experts[route])]++;
  }
}

std::span<const int32_t> ExpertRoutes::experts(size_t token) const {
  return std::span(experts_).subspan(token * choice_.num_per_token, choice_.num_per_token);
}
std::span<const float> ExpertRoutes::weights(size_t token) const {
  return std::span(weights_).subspan(token * choice_.num_per_token, choice_.num_per_token);
}

void ExpertRoutes::gather(const Executor& executor, ConstRows x, Rows grouped) const {
  CHECK(x.num_rows == num_tokens_ && grouped.num_rows == num_rows(), "a row for each route");
  CHECK(x.num_columns == grouped.num_columns, "the inputs of the experts");
  const size_t num_each = choice_.num_per_token;
  executor.for_row_ranges(num_tokens_, num_each * x.num_columns, [&](size_t begin, size_t end) {
    for (size_t route = begin * num_each; route < end * num_each; ++route) {
      std::copy_n(x.row(route / num_each), x.num_columns, grouped.row(rows_[route]));
    }
  });
}

void ExpertRoutes::add_to(const Executor& executor, ConstRows grouped, Rows out) const {
  CHECK(out.num_rows == num_tokens_ && grouped.num_rows == num_rows(), "a row for each route");
  CHECK(out.num_columns == grouped.num_columns, "the outputs of the experts");
  const size_t num_columns = choice_.num_per_token * out.num_columns;
  executor.for_row_ranges(num_tokens_, num_columns, [&](size_t begin, size_t end) {
    for (size_t token = begin; token < end; ++token) {
      add_token_to(token, grouped, {out.row(token), out.num_columns});
    }
  });
}

void ExpertRoutes::add_token_to(size_t token, ConstRows grouped, std::span<float> out) const {
  constexpr size_t kSums = 64;  // at once
  const size_t begin = token * choice_.num_per_token;
  for (size_t column = 0; column < out.size(); column += kSums) {
    const size_t count = std::min(kSums, out.size() - column);
    float sums[kSums] = {};
    for (size_t route = begin; route < begin + choice_.num_per_token; ++route) {
      const float* const part = grouped.row(rows_[route]) + column;
      for (size_t i = 0; i < count; ++i) sums[i] += weights_[route] * part[i];
    }
    for (size_t i = 0; i < count; ++i) out[column + i] += sums[i];
  }
}

void add_gated(const Executor& executor, ConstRows gates, ConstRows x, Rows out) {
  CHECK(gates.num_columns == 1 && gates.num_rows == x.num_rows, "a gate for each token");
  CHECK(x.num_rows == out.num_rows && x.num_columns == out.num_columns, "x has the outputs' shape");
  executor.for_row_ranges(x.num_rows, x.num_columns, [&](size_t begin, size_t end) {
    for (size_t token = begin; token < end; ++token) {
      const float scale = 1.0F / (1.0F + exp_reference(-*gates.row(token)));
      const float* const from = x.row(token);
      float* const to = out.row(token);
      for (size_t i = 0; i < x.num_columns; ++i) to[i] += scale * from[i];
    }
  });
}

}  // namespace millrace
