#include "workload/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/rng.h"
#include "workload/dataset_kinds.h"

namespace millrace::bench {
namespace {

// An option that only some datasets have a use for.
struct OptionUse {
  std::string_view flag;
  bool is_set = false;
};

bool is_set(const LengthSpread& spread) {
  return spread.stdev || spread.min || spread.max;
}

bool sets_gsp(const DatasetOptions& options, const DatasetOptions& none) {
  return options.gsp_num_groups != none.gsp_num_groups ||
         options.gsp_prompts_per_group != none.gsp_prompts_per_group ||
         options.gsp_system_prompt_len != none.gsp_system_prompt_len ||
         options.gsp_question_len != none.gsp_question_len ||
         options.gsp_output_len != none.gsp_output_len ||
         options.gsp_num_turns != none.gsp_num_turns || options.gsp_is_ordered ||
         options.gsp_zipf_alpha;
}

bool sets_prefix_repetition(const DatasetOptions& options, const DatasetOptions& none) {
  return options.prefix_repetition_prefix_len != none.prefix_repetition_prefix_len ||
         options.prefix_repetition_suffix_len != none.prefix_repetition_suffix_len ||
         options.prefix_repetition_num_prefixes != none.prefix_repetition_num_prefixes ||
         options.prefix_repetition_output_len != none.prefix_repetition_output_len;
}

std::vector<OptionUse> options_in_use(const DatasetOptions& options) {
  const DatasetOptions none;
  return {
      {"--dataset-path", !options.path.empty()},
      {"--input-len", options.input_len.has_value()},
      {"--output-len", options.output_len.has_value()},
      {"--input-spread", is_set(options.input_spread)},
      {"--output-spread", is_set(options.output_spread)},
      {"--random-range-ratio", options.range_ratio.has_value()},
      {"--range-ratio-mode", options.range_ratio_mode.has_value()},
      {"--random-prefix-len", options.prefix_len != 0},
      {"--hit-len", options.hit_len != 0},
      {"--sharegpt-output-len", options.sharegpt_output_len.has_value()},
      {"--sharegpt-context-len", options.sharegpt_context_len.has_value()},
      {"--sharegpt-rule", !options.sharegpt_rule_vllm},
      {"--gsp-*", sets_gsp(options, none)},
      {"--prefix-repetition-*", sets_prefix_repetition(options, none)},
      {"--mooncake-slowdown-factor", options.mooncake_slowdown != 1.0},
      {"--num-turns", options.num_turns != 1},
      {"--think-time", options.think_time.count() != 0},
      {"--tokenize-prompt", options.sends_token_ids}};
}

// Of the codec or of a writer over it, as the kind asks for.
using MakeFromWriter = DatasetResult (*)(const DatasetOptions&, WriterPtr);
using MakeFromCodec = DatasetResult (*)(const DatasetOptions&, CodecPtr);

struct Kind {
  std::string_view name;
  MakeFromWriter from_writer;  // or
  MakeFromCodec from_codec;
  std::vector<std::string_view> flags;  // of those that only some have a use for
  bool needs_path = false;
};

DatasetResult make_synthetic_text(const DatasetOptions& options, WriterPtr writer) {
  return options.path.empty() ? make_random_dataset(options, std::move(writer))
                              : make_emulated_dataset(options, std::move(writer));
}

std::vector<Kind> kinds() {
  const std::vector<std::string_view> drawn = {
      "--input-len",
      "--output-len",
      "--input-spread",
      "--output-spread",
      "--random-range-ratio",
      "--range-ratio-mode",
      "--random-prefix-len",
      "--num-turns",
      "--think-time",
      "--tokenize-prompt"};

  const std::vector<std::string_view> trace = {
      "--dataset-path", "--mooncake-slowdown-factor", "--tokenize-prompt"};
  const std::vector<std::string_view> synthetic_text = {
      "--dataset-path",
      "--input-len",
      "--output-len",
      "--input-spread",
      "--output-spread",
      "--num-turns",
      "--think-time",
      "--tokenize-prompt"};
  const std::vector<std::string_view> custom = {
      "--dataset-path", "--output-len", "--tokenize-prompt"};
  const std::vector<std::string_view> gsp = {"--gsp-*", "--think-time", "--tokenize-prompt"};
  return {
      {"random", make_random_dataset, nullptr, drawn},
      {"random-ids", make_random_ids_dataset, nullptr, drawn},
      {"emulated", make_synthetic_text, nullptr, synthetic_text},
      {"synthetic_text", make_synthetic_text, nullptr, synthetic_text},
      {"grid",
       make_grid_dataset,
       nullptr,
       {"--input-len", "--output-len", "--hit-len", "--tokenize-prompt"}},
      {"sharegpt",
       nullptr,
       make_sharegpt_dataset,
       {"--dataset-path",
        "--output-len",
        "--sharegpt-output-len",
        "--sharegpt-context-len",
        "--sharegpt-rule",
        "--tokenize-prompt"},
       true},
      {"generated-shared-prefix", make_shared_prefix_dataset, nullptr, gsp},
      {"prefix_repetition",
       make_prefix_repetition_dataset,
       nullptr,
       {"--prefix-repetition-*", "--tokenize-prompt"}},
      {"custom", nullptr, make_custom_dataset, custom, true},
      {"openai", nullptr, make_custom_dataset, custom, true},
      {"mooncake", make_mooncake_dataset, nullptr, trace, true},
      {"timed_trace", make_timed_trace_dataset, nullptr, trace, true},
      {"burstgpt", make_burstgpt_dataset, nullptr, trace, true},
      {"sonnet",
       make_sonnet_dataset,
       nullptr,
       {"--dataset-path",
        "--input-len",
        "--output-len",
        "--random-prefix-len",
        "--tokenize-prompt"},
       true}};
}

Error unknown_kind(const std::string& name, const std::vector<Kind>& known) {
  std::string names;
  for (const Kind& kind : known) names += fmt::format("{}{}", names.empty() ? "" : ", ", kind.name);
  return invalid_argument(
      fmt::format("the dataset '{}' is not known, expected one of {}", name, names),
      "--dataset-name"
  );
}

Result<void> refuse_useless(const DatasetOptions& options, const Kind& kind) {
  for (const OptionUse& use : options_in_use(options)) {
    const bool is_used =
        std::find(kind.flags.begin(), kind.flags.end(), use.flag) != kind.flags.end();
    if (!use.is_set || is_used) continue;
    return invalid_argument(
        fmt::format("{} is of no use to the dataset '{}'", use.flag, kind.name),
        std::string(use.flag)
    );
  }
  if (kind.needs_path && options.path.empty()) {
    return invalid_argument(
        fmt::format("the dataset '{}' needs a file: --dataset-path", kind.name), "--dataset-path"
    );
  }
  return {};
}

Result<void> check_common(const DatasetOptions& options) {
  constexpr int64_t kTurnsMax = 10'000;
  if (options.num_turns < 1 || options.num_turns > kTurnsMax) {
    return invalid_argument(
        fmt::format("--num-turns is {}, expected from 1 to {}", options.num_turns, kTurnsMax),
        "--num-turns"
    );
  }
  if (options.think_time.count() < 0) {
    return invalid_argument("--think-time is below 0", "--think-time");
  }
  const bool has_turns = options.num_turns > 1 || options.gsp_num_turns > 1;
  if (options.think_time.count() > 0 && !has_turns) {
    return invalid_argument(
        "--think-time lies between turns: it needs --num-turns or --gsp-num-turns above 1",
        "--think-time"
    );
  }
  // SGLang's own ratio is 0, which draws from 1 to L; vLLM's 0 draws nothing.
  if (options.range_ratio_mode == RangeRatioMode::kVllm && !options.range_ratio) {
    return invalid_argument(
        "--range-ratio-mode vllm needs --random-range-ratio", "--range-ratio-mode"
    );
  }
  if (!(options.mooncake_slowdown >= 0.0) || std::isinf(options.mooncake_slowdown)) {
    return invalid_argument(
        fmt::format(
            "--mooncake-slowdown-factor is {}, expected a finite number from 0",
            options.mooncake_slowdown
        ),
        "--mooncake-slowdown-factor"
    );
  }
  return {};
}

}  // namespace

RunKeys run_keys(const DatasetOptions& options) {
  const uint64_t seed = mix64(options.seed);
  return {seed, options.nonce ? random_bits(seed, *options.nonce) : key_of(seed, 1)};
}

Result<std::unique_ptr<Dataset>> make_dataset(
    const DatasetOptions& options, std::shared_ptr<const TokenCodec> codec
) {
  const std::vector<Kind> known = kinds();
  const std::string name = options.name == "gsp" ? "generated-shared-prefix" : options.name;
  const auto kind =
      std::find_if(known.begin(), known.end(), [&](const Kind& k) { return k.name == name; });
  if (kind == known.end()) return unknown_kind(name, known);
  if (Result<void> checked = refuse_useless(options, *kind); !checked) return checked.error();
  if (Result<void> checked = check_common(options); !checked) return checked.error();
  if (kind->from_codec != nullptr) return kind->from_codec(options, std::move(codec));
  if (codec == nullptr) {
    return invalid_argument(
        fmt::format("the dataset '{}' counts tokens and needs a tokenizer: --tokenizer", name),
        "--tokenizer"
    );
  }
  Result<WriterPtr> writer = PromptWriter::make(std::move(codec));
  if (!writer) return writer.error();
  return kind->from_writer(options, *std::move(writer));
}

}  // namespace millrace::bench
