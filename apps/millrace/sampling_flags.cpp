#include "sampling_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace millrace {
namespace {

enum class FlagKind { kJson, kStrings, kSwitch };

struct FieldFlag {
  std::string_view field;  // the flag is its name with dashes
  FlagKind kind;
  std::string_view help;
};

constexpr FieldFlag kFieldFlags[] = {
    {"max_tokens", FlagKind::kJson, "most tokens to generate (256)"},
    {"temperature", FlagKind::kJson, "0: always the likeliest token (the default here); up to 2"},
    {"top_k", FlagKind::kJson, "choose among the k likeliest tokens"},
    {"top_p", FlagKind::kJson, "choose among the likeliest tokens that hold this mass"},
    {"min_p", FlagKind::kJson, "drop tokens below this share of the likeliest one"},
    {"n", FlagKind::kJson, "answers for each prompt"},
    {"stop", FlagKind::kStrings, "text that ends the answer; may be repeated"},
    {"stop_token_ids", FlagKind::kJson, "token ids that end the answer: [2, 7]"},
    {"include_stop_str_in_output", FlagKind::kSwitch, "keep the stop text in the answer"},
    {"min_tokens", FlagKind::kJson, "no end before this many tokens"},
    {"ignore_eos", FlagKind::kSwitch, "go on after an end-of-sequence token"},
    {"presence_penalty", FlagKind::kJson, "-2 to 2, for tokens that the answer has"},
    {"frequency_penalty", FlagKind::kJson, "-2 to 2, for each time the answer has a token"},
    {"repetition_penalty", FlagKind::kJson, "above 1: against tokens of prompt and answer"},
    {"logit_bias", FlagKind::kJson, "added to tokens' scores: {\"42\": -100}"},
    {"allowed_token_ids", FlagKind::kJson, "the only tokens to choose from: [1, 5]"},
    {"bad_words", FlagKind::kStrings, "a word that must not appear; may be repeated"},
    {"logprobs", FlagKind::kJson, "logprobs of each token and of this many others"},
    {"prompt_logprobs", FlagKind::kJson, "the same for the prompt's tokens"},
    {"echo", FlagKind::kSwitch, "begin the text with the prompt"},
    {"timeout_s", FlagKind::kJson, "seconds after which an answer is cut off"},
    {"priority", FlagKind::kJson, "lower goes first, with --scheduling-policy priority"},
};

std::string flag_of(std::string_view field) {
  std::string flag = "--" + std::string(field);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

void add_field_flag(CommandLine& line, json::object& fields, const FieldFlag& flag) {
  const std::string field(flag.field);
  const std::string help(flag.help);
  switch (flag.kind) {
    case FlagKind::kJson: {
      const auto take = [&fields, field](const std::string& text) -> Result<void> {
        const Result<json::value> value = parse_json(text);
        if (!value) return invalid_argument(fmt::format("'{}' is not a JSON value", text));
        fields[field] = *value;
        return {};
      };
      line.add_value(flag_of(field), take, help).set_type_name("JSON");
      return;
    }
    case FlagKind::kStrings: {
      const auto take = [&fields, field](const std::string& text) -> Result<void> {
        json::value& list = fields[field];
        if (!list.is_array()) list = json::array();
        list.get_array().emplace_back(text);
        return {};
      };
      line.add_callback(flag_of(field), take, help);
      return;
    }
    case FlagKind::kSwitch: {
      line.add_switch(
          flag_of(field), [&fields, field] { fields[field] = true; }, help
      );
      return;
    }
  }
}

}  // namespace

void add_sampling_flags(
    CommandLine& line, json::object& fields, std::span<const std::string_view> without
) {
  for (const FieldFlag& flag : kFieldFlags) {
    if (std::ranges::find(without, flag.field) == without.end()) add_field_flag(line, fields, flag);
  }
}

}  // namespace millrace
