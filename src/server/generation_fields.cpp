#include "server/generation_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <span>
#include <type_traits>
#include <variant>

#include "base/error_reason.h"
#include "server/field_error.h"

namespace millrace {
namespace {

constexpr size_t kStopStringsMax = 32;
constexpr size_t kStopStringBytesMax = 4096;
constexpr size_t kTokenIdsMax = 1 << 20;   // tighter bounds are validate()'s
constexpr size_t kBadWordBytesMax = 1024;  // before words are tokenized

Error out_of_range(std::string_view where, std::string_view what, std::string_view reason) {
  return invalid_argument(
      fmt::format("{} is {} out of range", where, what), std::string(where), reason
  );
}

Result<bool> read_bool(std::string_view where, const json::value& value) {
  if (!value.is_bool()) return wrong_type(where, "true or false", value);
  return value.get_bool();
}

Result<int32_t> read_int32(std::string_view where, const json::value& value) {
  if (!value.is_int64() && !value.is_uint64()) return wrong_type(where, "an integer", value);
  boost::system::error_code ec;
  const auto number = value.to_number<int32_t>(ec);
  if (!ec) return number;
  const bool is_negative = value.is_int64() && value.get_int64() < 0;
  return out_of_range(
      where,
      "an integer",
      is_negative ? error_reason::kIntegerBelowMin : error_reason::kIntegerAboveMax
  );
}

Result<float> read_float(std::string_view where, const json::value& value) {
  if (!value.is_number()) return wrong_type(where, "a number", value);
  const auto number = value.to_number<double>();
  constexpr double kMax = std::numeric_limits<float>::max();
  if (number >= -kMax && number <= kMax) return static_cast<float>(number);
  return out_of_range(
      where,
      "a number",
      number < 0 ? error_reason::kDecimalBelowMin : error_reason::kDecimalAboveMax
  );
}

Result<std::string> read_string(std::string_view where, const json::value& value) {
  if (!value.is_string()) return wrong_type(where, "a string", value);
  return std::string(value.get_string());
}

// Reads every element with `read`; an error's path is "where[i]".
template <class T, class Read>
Result<std::vector<T>> read_list(
    std::string_view where, const json::value& value, size_t size_max, Read read
) {
  if (!value.is_array()) return wrong_type(where, "a list", value);
  const json::array& array = value.get_array();
  if (array.size() > size_max) return too_many_entries(where, array.size(), size_max);
  std::vector<T> list;
  list.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    Result<T> element = read(std::string_view(), array[i]);
    // Paths are for errors only: most lists have none.
    if (!element) return read(fmt::format("{}[{}]", where, i), array[i]).error();
    list.push_back(*std::move(element));
  }
  return list;
}

// Stores a read value, or passes its error on.
template <class T, class Target>
Result<void> store(Result<T> value, Target& target) {
  if (!value) return value.error();
  target = *std::move(value);
  return {};
}

Result<void> read_seed(const json::value& value, GenerationFields& fields) {
  if (value.is_uint64()) return out_of_range("seed", "an integer", error_reason::kIntegerAboveMax);
  if (!value.is_int64()) return wrong_type("seed", "an integer", value);
  fields.sampling.seed = static_cast<uint64_t>(value.get_int64());
  return {};
}

Result<void> read_stop(const json::value& value, GenerationFields& fields) {
  if (value.is_string()) {
    fields.stop = {std::string(value.get_string())};
  } else {
    Result<std::vector<std::string>> list =
        read_list<std::string>("stop", value, kStopStringsMax, read_string);
    if (!list) return list.error();
    fields.stop = *std::move(list);
  }
  for (size_t i = 0; i < fields.stop.size(); ++i) {
    const size_t num_bytes = fields.stop[i].size();
    if (num_bytes > 0 && num_bytes <= kStopStringBytesMax) continue;
    const std::string where = value.is_string() ? "stop" : fmt::format("stop[{}]", i);
    return invalid_argument(
        fmt::format("{} must be a string of 1 to {} bytes", where, kStopStringBytesMax),
        where,
        num_bytes == 0 ? error_reason::kStringBelowMin : error_reason::kStringAboveMax
    );
  }
  return {};
}

Result<void> read_logit_bias(const json::value& value, GenerationFields& fields) {
  if (!value.is_object()) return wrong_type("logit_bias", "an object of token ids", value);
  const size_t num_entries = value.get_object().size();
  if (num_entries > kLogitBiasMax) {
    return invalid_argument(
        fmt::format("logit_bias may hold at most {} entries, got {}", kLogitBiasMax, num_entries),
        "logit_bias",
        error_reason::kObjectAboveMax
    );
  }
  std::vector<std::pair<TokenId, float>> biases;
  for (const json::key_value_pair& entry : value.get_object()) {
    const std::string_view key = entry.key();
    const auto where = [&] { return fmt::format("logit_bias.{}", cut_text(key, 40)); };
    TokenId id = 0;
    const auto [end, ec] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool is_id = ec == std::errc() && end == key.data() + key.size();
    if (!is_id || key != std::to_string(id)) {
      return wrong_value(where(), "under a key that is a token id");
    }
    const Result<float> bias = read_float(where(), entry.value());
    if (!bias) return bias.error();
    biases.emplace_back(id, *bias);
  }
  fields.sampling.logit_bias = std::move(biases);
  return {};
}

// Words become token sequences as they stand at a text's start and, where that is another token,
// after a space: the two spellings a model can produce (as vLLM does).
Result<void> read_bad_words(
    const json::value& value, const Tokenizer& tokenizer, GenerationFields& fields
) {
  const Result<std::vector<std::string>> words =
      read_list<std::string>("bad_words", value, kBadWordsMax, read_string);
  if (!words) return words.error();
  std::vector<std::vector<TokenId>> sequences;
  for (size_t i = 0; i < words->size(); ++i) {
    const std::string& word = (*words)[i];
    if (word.size() > kBadWordBytesMax) {
      return invalid_argument(
          fmt::format("bad_words[{}] has {} bytes, at most {}", i, word.size(), kBadWordBytesMax),
          fmt::format("bad_words[{}]", i),
          error_reason::kStringAboveMax
      );
    }
    const size_t start = std::min(word.find_first_not_of(" \t\n\r"), word.size());
    const std::string bare = word.substr(start);
    const EncodeOptions options{.add_special_tokens = false};
    std::vector<TokenId> plain = tokenizer.encode(bare, options);
    if (plain.empty()) {
      return invalid_argument(
          fmt::format("bad_words[{}] must not be an empty word", i),
          fmt::format("bad_words[{}]", i),
          error_reason::kStringBelowMin
      );
    }
    if (plain.size() > kBadWordTokensMax) {
      return invalid_argument(
          fmt::format(
              "bad_words[{}] has {} tokens, at most {}", i, plain.size(), kBadWordTokensMax
          ),
          fmt::format("bad_words[{}]", i),
          error_reason::kStringAboveMax
      );
    }
    std::vector<TokenId> spaced = tokenizer.encode(" " + bare, options);
    if (spaced.size() == plain.size() && spaced.front() != plain.front()) {
      sequences.push_back(std::move(spaced));
    }
    sequences.push_back(std::move(plain));
  }
  fields.sampling.bad_words = std::move(sequences);
  return {};
}

// `logprobs` is a count in completions and a switch in chats, where `top_logprobs` counts.
Result<void> read_logprobs(const json::value& value, GenerationFields& fields) {
  if (!value.is_bool()) return store(read_int32("logprobs", value), fields.sampling.logprobs);
  if (!value.get_bool()) {
    fields.sampling.logprobs.reset();
  } else if (!fields.sampling.logprobs) {
    fields.sampling.logprobs = 0;
  }
  return {};
}

Result<void> read_timeout(const json::value& value, GenerationFields& fields) {
  if (!value.is_number()) return wrong_type("timeout_s", "a number", value);
  const auto seconds = value.to_number<double>();
  if (!(seconds > 0.0 && seconds <= kTimeoutMax_s)) {
    return invalid_argument(
        fmt::format("timeout_s must be above 0 and at most {}", kTimeoutMax_s),
        "timeout_s",
        seconds > 0.0 ? error_reason::kDecimalAboveMax : error_reason::kDecimalBelowMin
    );
  }
  fields.timeout_s = seconds;
  return {};
}

using Reader = Result<void> (*)(const json::value&, GenerationFields&);
using TextReader = Result<void> (*)(const json::value&, const Tokenizer&, GenerationFields&);

// A field and where its value goes: a member that takes the value as it is, or a function.
struct Field {
  std::string_view name;
  std::variant<
      float SamplingParams::*,
      int32_t SamplingParams::*,
      std::optional<int32_t> SamplingParams::*,
      bool SamplingParams::*,
      SharedList<TokenId> SamplingParams::*,
      std::optional<SharedList<TokenId>> SamplingParams::*,
      bool GenerationFields::*,
      int32_t GenerationFields::*,
      Reader,
      TextReader>
      target;
};

const Field kFields[] = {
    {"temperature", &SamplingParams::temperature},
    {"top_k", &SamplingParams::top_k},
    {"top_p", &SamplingParams::top_p},
    {"min_p", &SamplingParams::min_p},
    {"seed", read_seed},
    {"presence_penalty", &SamplingParams::presence_penalty},
    {"frequency_penalty", &SamplingParams::frequency_penalty},
    {"repetition_penalty", &SamplingParams::repetition_penalty},
    {"logit_bias", read_logit_bias},
    {"allowed_token_ids", &SamplingParams::allowed_token_ids},
    {"bad_words", read_bad_words},
    {"max_tokens", &SamplingParams::max_tokens},
    {"min_tokens", &SamplingParams::min_tokens},
    {"ignore_eos", &SamplingParams::ignore_eos},
    {"stop_token_ids", &SamplingParams::stop_token_ids},
    {"stop", read_stop},
    {"include_stop_str_in_output", &GenerationFields::include_stop_str_in_output},
    {"skip_special_tokens", &GenerationFields::skip_special_tokens},
    {"n", &SamplingParams::n},
    {"top_logprobs", &SamplingParams::logprobs},
    {"logprobs", read_logprobs},  // after top_logprobs: it may switch them off
    {"prompt_logprobs", &SamplingParams::prompt_logprobs},
    {"echo", &GenerationFields::echo},
    {"priority", &GenerationFields::priority},
    {"timeout_s", read_timeout},
};

// Reads a value of the type that a member has, and stores it there.
class FieldReader {
 public:
  FieldReader(
      const Field& field,
      const json::value& value,
      const Tokenizer& tokenizer,
      GenerationFields& fields
  )
      : name_(field.name), value_(value), tokenizer_(tokenizer), fields_(fields) {}

  template <class Member, class Owner>
  Result<void> operator()(Member Owner::*member) const {
    if constexpr (std::is_same_v<Owner, SamplingParams>) {
      return read_into(fields_.sampling.*member);
    } else {
      return read_into(fields_.*member);
    }
  }
  Result<void> operator()(Reader read) const { return read(value_, fields_); }
  Result<void> operator()(TextReader read) const { return read(value_, tokenizer_, fields_); }

 private:
  Result<void> read_into(bool& target) const { return store(read_bool(name_, value_), target); }
  Result<void> read_into(float& target) const { return store(read_float(name_, value_), target); }
  Result<void> read_into(int32_t& target) const { return store(read_int32(name_, value_), target); }
  Result<void> read_into(std::optional<int32_t>& target) const {
    return store(read_int32(name_, value_), target);
  }
  Result<void> read_into(SharedList<TokenId>& target) const {
    return store(read_list<TokenId>(name_, value_, kTokenIdsMax, read_int32), target);
  }
  Result<void> read_into(std::optional<SharedList<TokenId>>& target) const {
    return store(read_list<TokenId>(name_, value_, kTokenIdsMax, read_int32), target);
  }

  std::string_view name_;
  const json::value& value_;
  const Tokenizer& tokenizer_;
  GenerationFields& fields_;
};

}  // namespace

bool is_generation_field(std::string_view name) {
  return std::ranges::any_of(kFields, [&](const Field& field) { return field.name == name; });
}

void apply_defaults(const GenerationDefaults& defaults, SamplingParams& sampling) {
  sampling.temperature =
      std::min(defaults.temperature.value_or(sampling.temperature), kTemperatureMax);
  sampling.top_k = defaults.top_k.value_or(sampling.top_k);
  sampling.top_p = defaults.top_p.value_or(sampling.top_p);
  sampling.min_p = defaults.min_p.value_or(sampling.min_p);
  sampling.repetition_penalty = defaults.repetition_penalty.value_or(sampling.repetition_penalty);
}

Result<void> read_generation_fields(
    const json::object& object, const Tokenizer& tokenizer, GenerationFields& fields
) {
  for (const Field& field : kFields) {
    const json::value* value = object.if_contains(field.name);
    if (value == nullptr || value->is_null()) continue;
    Result<void> read = std::visit(FieldReader(field, *value, tokenizer, fields), field.target);
    if (!read) return read.error();
  }
  return {};
}

}  // namespace millrace
