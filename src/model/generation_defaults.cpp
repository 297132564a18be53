#include "model/generation_defaults.h"

#include <limits>

#include "base/json_fields.h"

namespace millrace {
namespace {

std::optional<float> read_float(JsonFields& fields, std::string_view key, NumberRange range) {
  const std::optional<double> number = fields.number(key, range);
  if (!number) return std::nullopt;
  return static_cast<float>(*number);
}

std::optional<int32_t> read_int(JsonFields& fields, std::string_view key, int32_t min) {
  const IntRange range{.min = min, .max = std::numeric_limits<int32_t>::max()};
  const std::optional<int64_t> integer = fields.integer(key, range);
  if (!integer) return std::nullopt;
  return static_cast<int32_t>(*integer);
}

}  // namespace

Result<GenerationDefaults> parse_generation_defaults(
    const json::object& object, int64_t vocab_size
) {
  JsonFields fields(object);
  GenerationDefaults defaults;
  defaults.temperature = read_float(fields, "temperature", {.min = 0.0, .max = 1e4});
  defaults.top_k = read_int(fields, "top_k", -1);
  defaults.top_p = read_float(fields, "top_p", {.min = 1e-6, .max = 1.0});
  defaults.min_p = read_float(fields, "min_p", {.min = 0.0, .max = 1.0});
  defaults.repetition_penalty = read_float(fields, "repetition_penalty", {.min = 1e-3, .max = 1e3});
  defaults.max_new_tokens = read_int(fields, "max_new_tokens", 1);
  defaults.eos_token_ids = fields.token_ids("eos_token_id", vocab_size);
  const std::vector<TokenId> bos = fields.token_ids("bos_token_id", vocab_size);
  if (!bos.empty()) defaults.bos_token_id = bos.front();
  if (fields.error()) return *fields.error();
  return defaults;
}

}  // namespace millrace
