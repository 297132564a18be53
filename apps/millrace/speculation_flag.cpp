#include "speculation_flag.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace millrace {
namespace {

constexpr std::string_view kKeys =
    "method, num_speculative_tokens, prompt_lookup_max and prompt_lookup_min";

Result<int32_t> integer_of(std::string_view key, const json::value& value) {
  const auto* number = value.if_int64();
  // Ranges of our own come later; this one is the type's.
  if (number != nullptr && std::in_range<int32_t>(*number)) return static_cast<int32_t>(*number);
  return invalid_argument(
      fmt::format("{} must be an integer, got {}", key, to_json_text(value)), std::string(key)
  );
}

Result<void> check_method(const json::object& object) {
  const json::value* method = object.if_contains("method");
  if (method == nullptr)
    return invalid_argument("method is missing: it must be \"ngram\"", "method");
  if (method->is_string() && method->get_string() == "ngram") return {};
  return invalid_argument(
      fmt::format("method must be \"ngram\", got {}", to_json_text(*method)), "method"
  );
}

}  // namespace

Result<NgramSpeculation> parse_speculative_config(const std::string& text) {
  const Result<json::value> value = parse_json(text, {.depth_max = 8});
  if (!value) return value.error();
  if (!value->is_object()) {
    return invalid_argument(fmt::format("must be a JSON object with {}", kKeys));
  }
  const json::object& object = value->get_object();
  if (auto checked = check_method(object); !checked) return checked.error();

  std::optional<int32_t> num_tokens;
  std::optional<int32_t> lookup_max;
  std::optional<int32_t> lookup_min;
  for (const auto& [key, member] : object) {
    if (key == "method") continue;
    std::optional<int32_t>* target = key == "num_speculative_tokens" ? &num_tokens
                                     : key == "prompt_lookup_max"    ? &lookup_max
                                     : key == "prompt_lookup_min"    ? &lookup_min
                                                                     : nullptr;
    if (target == nullptr) {
      return invalid_argument(
          fmt::format("{} is not known; the keys are {}", to_json_text(json::string(key)), kKeys),
          std::string(key)
      );
    }
    const Result<int32_t> number = integer_of(key, member);
    if (!number) return number.error();
    *target = *number;
  }
  if (!num_tokens) {
    return invalid_argument("num_speculative_tokens is missing", "num_speculative_tokens");
  }
  // What was given, each by its own name; then the whole.
  const NgramSpeculation given{
      .num_speculative_tokens = *num_tokens,
      .prompt_lookup_max = lookup_max.value_or(NgramSpeculation::kLookupMax),
      .prompt_lookup_min = lookup_min.value_or(1),
  };
  if (auto valid = validate(given); !valid) return valid.error();
  const NgramSpeculation defaults;
  const NgramSpeculation speculation{
      .num_speculative_tokens = *num_tokens,
      .prompt_lookup_max = lookup_max.value_or(lookup_min.value_or(defaults.prompt_lookup_max)),
      .prompt_lookup_min = lookup_min.value_or(lookup_max.value_or(defaults.prompt_lookup_min)),
  };
  if (auto valid = validate(speculation); !valid) return valid.error();
  return speculation;
}

void add_speculation_flag(CommandLine& line, std::optional<NgramSpeculation>& speculation) {
  const auto take = [&speculation](const std::string& text) -> Result<void> {
    const Result<NgramSpeculation> parsed = parse_speculative_config(text);
    if (!parsed) return parsed.error();
    speculation = *parsed;
    return {};
  };
  line.add_value(
          "--speculative-config",
          take,
          "guess tokens from what came before, and check them in one step: "
          "{\"method\": \"ngram\", \"num_speculative_tokens\": 5, \"prompt_lookup_max\": 4, "
          "\"prompt_lookup_min\": 2}; the answers stay the same to the bit"
  )
      .set_type_name("JSON");
}

}  // namespace millrace
