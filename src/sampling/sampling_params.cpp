#include "sampling/sampling_params.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

#include "base/error_reason.h"

namespace millrace {
namespace {

constexpr size_t kListedBytesMax = 150;  // of wrong entries in a message

// Each check returns the error or nothing; `validate` returns the first.
using Check = std::optional<Error>;

Check refuse(std::string_view field, std::string expected, std::string_view reason) {
  return invalid_argument(fmt::format("{} {}", field, expected), std::string(field), reason);
}

Check check_range(std::string_view field, int32_t value, int32_t low, int32_t high) {
  if (value >= low && value <= high) return std::nullopt;
  return refuse(
      field,
      fmt::format("must be between {} and {}, got {}", low, high, value),
      value < low ? error_reason::kIntegerBelowMin : error_reason::kIntegerAboveMax
  );
}

// The word for a number that is not above `low`, or is too high or no number.
std::string_view decimal_reason(float value, float low) {
  return value <= low ? error_reason::kDecimalBelowMin : error_reason::kDecimalAboveMax;
}

Check check_range(std::string_view field, float value, float low, float high) {
  if (value >= low && value <= high) return std::nullopt;
  return refuse(
      field,
      fmt::format("must be between {} and {}, got {}", low, high, value),
      decimal_reason(value, low)
  );
}

Check check_id(const std::string& where, TokenId id, int64_t vocab_size) {
  if (id >= 0 && id < vocab_size) return std::nullopt;
  return refuse(
      where,
      fmt::format("must be a token id below {}, got {}", vocab_size, id),
      id < 0 ? error_reason::kIntegerBelowMin : error_reason::kIntegerAboveMax
  );
}

Check check_ids(std::string_view field, std::span<const TokenId> ids, int64_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    return check_id(fmt::format("{}[{}]", field, i), ids[i], vocab_size);
  }
  return std::nullopt;
}

Check check_count(std::string_view field, size_t count, size_t count_max) {
  if (count <= count_max) return std::nullopt;
  return refuse(
      field,
      fmt::format("may hold at most {} entries, got {}", count_max, count),
      error_reason::kArrayAboveMax
  );
}

Check check_distribution(const SamplingParams& p) {
  if (auto error = check_range("temperature", p.temperature, 0.0F, kTemperatureMax)) return error;
  if (p.top_k < -1) {
    return refuse(
        "top_k",
        fmt::format("must be -1, 0 (both: off) or positive, got {}", p.top_k),
        error_reason::kIntegerBelowMin
    );
  }
  if (!(p.top_p > 0.0F && p.top_p <= 1.0F)) {
    return refuse(
        "top_p",
        fmt::format("must be above 0 and at most 1, got {}", p.top_p),
        decimal_reason(p.top_p, 0.0F)
    );
  }
  return check_range("min_p", p.min_p, 0.0F, 1.0F);
}

Check check_penalties(const SamplingParams& p) {
  if (auto error = check_range("presence_penalty", p.presence_penalty, -2.0F, 2.0F)) return error;
  if (auto error = check_range("frequency_penalty", p.frequency_penalty, -2.0F, 2.0F)) return error;
  if (!(std::isfinite(p.repetition_penalty) && p.repetition_penalty > 0.0F)) {
    return refuse(
        "repetition_penalty",
        fmt::format("must be finite and above 0, got {}", p.repetition_penalty),
        decimal_reason(p.repetition_penalty, 0.0F)
    );
  }
  return std::nullopt;
}

// Names every key that is no token, so that a client can repair all at once.
Check check_bias_keys(const SamplingParams& p, int64_t vocab_size) {
  std::string wrong;
  const TokenId* first = nullptr;
  for (const auto& [id, bias] : p.logit_bias) {
    if (id >= 0 && id < vocab_size) continue;
    if (first == nullptr) first = &id;
    if (wrong.size() < kListedBytesMax) wrong += fmt::format("{}{}", wrong.empty() ? "" : ", ", id);
  }
  if (first == nullptr) return std::nullopt;
  return invalid_argument(
      fmt::format("logit_bias must have token ids below {} as keys, got {}", vocab_size, wrong),
      fmt::format("logit_bias.{}", *first),
      *first < 0 ? error_reason::kIntegerBelowMin : error_reason::kIntegerAboveMax
  );
}

Check check_logit_bias(const SamplingParams& p, int64_t vocab_size) {
  if (auto error = check_count("logit_bias", p.logit_bias.size(), kLogitBiasMax)) return error;
  if (auto error = check_bias_keys(p, vocab_size)) return error;
  for (const auto& [id, bias] : p.logit_bias) {
    if (bias >= -100.0F && bias <= 100.0F) continue;
    return check_range(fmt::format("logit_bias.{}", id), bias, -100.0F, 100.0F);
  }
  return std::nullopt;
}

Check check_bad_word(size_t i, const std::vector<TokenId>& word, int64_t vocab_size) {
  const auto where = [i] { return fmt::format("bad_words[{}]", i); };
  if (word.empty()) {
    return refuse(where(), "must not be an empty word", error_reason::kStringBelowMin);
  }
  if (word.size() > kBadWordTokensMax) {
    return refuse(
        where(),
        fmt::format("may have at most {} tokens, got {}", kBadWordTokensMax, word.size()),
        error_reason::kStringAboveMax
    );
  }
  for (const TokenId id : word) {
    if (id < 0 || id >= vocab_size) return check_id(where(), id, vocab_size);
  }
  return std::nullopt;
}

Check check_constraints(const SamplingParams& p, int64_t vocab_size) {
  if (auto error = check_logit_bias(p, vocab_size)) return error;
  if (p.allowed_token_ids) {
    if (p.allowed_token_ids->empty()) {
      return refuse("allowed_token_ids", "must not be empty", error_reason::kArrayBelowMin);
    }
    const auto count_max = static_cast<size_t>(vocab_size);
    if (auto error = check_count("allowed_token_ids", p.allowed_token_ids->size(), count_max)) {
      return error;
    }
    if (auto error = check_ids("allowed_token_ids", *p.allowed_token_ids, vocab_size)) {
      return error;
    }
  }
  if (auto error = check_count("bad_words", p.bad_words.size(), 2 * kBadWordsMax)) return error;
  for (size_t i = 0; i < p.bad_words.size(); ++i) {
    if (auto error = check_bad_word(i, p.bad_words[i], vocab_size)) return error;
  }
  return std::nullopt;
}

Check check_length(const SamplingParams& p, const SamplingLimits& limits) {
  if (p.max_tokens < 1) {
    return refuse(
        "max_tokens",
        fmt::format("must be at least 1, got {}", p.max_tokens),
        error_reason::kIntegerBelowMin
    );
  }
  if (p.min_tokens < 0 || p.min_tokens > p.max_tokens) {
    return refuse(
        "min_tokens",
        fmt::format("must be between 0 and max_tokens ({}), got {}", p.max_tokens, p.min_tokens),
        p.min_tokens < 0 ? error_reason::kIntegerBelowMin : error_reason::kIntegerAboveMax
    );
  }
  if (auto error = check_count("stop_token_ids", p.stop_token_ids.size(), kStopTokenIdsMax)) {
    return error;
  }
  if (auto error = check_ids("stop_token_ids", p.stop_token_ids, limits.vocab_size)) return error;
  return check_range("n", p.n, 1, limits.n_max);
}

Check check_logprobs(const SamplingParams& p, int32_t logprobs_max) {
  if (p.logprobs) {
    if (auto error = check_range("logprobs", *p.logprobs, 0, logprobs_max)) return error;
  }
  if (p.prompt_logprobs) {
    return check_range("prompt_logprobs", *p.prompt_logprobs, 0, logprobs_max);
  }
  return std::nullopt;
}

}  // namespace

Result<void> validate(const SamplingParams& params, const SamplingLimits& limits) {
  if (auto error = check_distribution(params)) return *error;
  if (auto error = check_penalties(params)) return *error;
  if (auto error = check_constraints(params, limits.vocab_size)) return *error;
  if (auto error = check_length(params, limits)) return *error;
  if (auto error = check_logprobs(params, limits.logprobs_max)) return *error;
  return {};
}

}  // namespace millrace
