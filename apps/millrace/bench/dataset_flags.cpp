// The flags that say what prompts are made of.
#include <fmt/format.h>

#include <chrono>
#include <string_view>
#include <vector>

#include "base/math.h"
#include "bench/flag_values.h"
#include "bench/flags.h"

namespace millrace::bench {
namespace {

// "STDEV:MIN:MAX" in tokens.
void add_spread(
    CommandLine& line, const std::string& name, LengthSpread& spread, const std::string& help
) {
  line.add_value(
      name,
      [&spread](const std::string& text) -> Result<void> {
        const std::vector<std::string_view> parts = split(text, ':');
        std::optional<int64_t>* const fields[] = {&spread.stdev, &spread.min, &spread.max};
        for (size_t i = 0; i < parts.size() && i < std::size(fields); ++i) {
          if (parts[i].empty()) continue;
          *fields[i] = parse_number<int64_t>(parts[i]);
          if (!*fields[i])
            return invalid_argument(fmt::format("'{}': expected STDEV:MIN:MAX", text));
        }
        if (parts.size() > std::size(fields)) {
          return invalid_argument(fmt::format("'{}': expected STDEV:MIN:MAX", text));
        }
        return {};
      },
      help
  );
}

void add_session_flags(CommandLine& line, DatasetOptions& options) {
  line.add("--num-turns", options.num_turns, "turns of a session (1)");
  line.add_value(
      "--think-time",
      [&options](const std::string& text) -> Result<void> {
        const std::optional<double> seconds = parse_number<double>(text);
        if (!seconds || !(*seconds >= 0.0 && *seconds < 1e6)) {
          return invalid_argument(fmt::format("'{}': expected seconds", text));
        }
        options.think_time = std::chrono::nanoseconds(static_cast<int64_t>(*seconds * 1e9));
        return {};
      },
      "seconds between an answer and the session's next turn (0)"
  );
}

void add_prefix_repetition_flags(CommandLine& line, DatasetOptions& options) {
  line.add(
      "--prefix-repetition-prefix-len",
      options.prefix_repetition_prefix_len,
      "prefix_repetition: tokens shared (256)"
  );
  line.add(
      "--prefix-repetition-suffix-len", options.prefix_repetition_suffix_len, "of one's own (256)"
  );
  line.add(
      "--prefix-repetition-num-prefixes",
      options.prefix_repetition_num_prefixes,
      "how many prefixes (10)"
  );
  line.add(
      "--prefix-repetition-output-len",
      options.prefix_repetition_output_len,
      "tokens of an answer (128)"
  );
}

void add_random_flags(CommandLine& line, DatasetOptions& options) {
  line.add("--input-len,--random-input-len,--isl", options.input_len, "tokens of a prompt (1024)");
  line.add(
      "--output-len,--random-output-len,--osl", options.output_len, "tokens of an answer (128)"
  );
  line.add(
      "--range-ratio,--random-range-ratio",
      options.range_ratio,
      "how far lengths vary, 0 to 1; say with --range-ratio-mode whose meaning"
  );
  line.add_value(
      "--range-ratio-mode",
      [&options](const std::string& text) -> Result<void> {
        if (text != "vllm" && text != "sglang") {
          return invalid_argument(fmt::format("'{}': expected vllm or sglang", text));
        }
        options.range_ratio_mode = text == "vllm" ? RangeRatioMode::kVllm : RangeRatioMode::kSglang;
        return {};
      },
      "vllm: L(1-r) to L(1+r); sglang: L*r to L"
  );
  line.add("--prefix-len,--random-prefix-len", options.prefix_len, "tokens that all prompts share");
  add_spread(line, "--input-spread", options.input_spread, "STDEV:MIN:MAX of a prompt's tokens");
  add_spread(line, "--output-spread", options.output_spread, "the same of an answer's");
  add_session_flags(line, options);
  line.add_switch(
      "--tokenize-prompt",
      [&options] { options.sends_token_ids = true; },
      "send token ids instead of text"
  );
}

void add_group_flags(CommandLine& line, DatasetOptions& options) {
  line.add("--gsp-num-groups", options.gsp_num_groups, "generated-shared-prefix: groups (64)");
  line.add("--gsp-prompts-per-group", options.gsp_prompts_per_group, "prompts of a group (16)");
  line.add("--gsp-system-prompt-len", options.gsp_system_prompt_len, "tokens shared (2048)");
  line.add("--gsp-question-len", options.gsp_question_len, "tokens of one's own (128)");
  line.add("--gsp-output-len", options.gsp_output_len, "tokens of an answer (256)");
  line.add("--gsp-num-turns", options.gsp_num_turns, "turns of a session (1)");
  line.add_flag("--gsp-ordered", options.gsp_is_ordered, "group after group, not shuffled");
  line.add("--gsp-zipf-alpha", options.gsp_zipf_alpha, "groups chosen by rank^-alpha");
}

}  // namespace

void add_seed_flags(CommandLine& line, BenchFlags& flags) {
  line.add("--seed", flags.dataset.seed, "of prompts and arrivals (0)");
  add_off_switch(
      line, "--no-nonce", flags.has_nonce, "the same prompts in each run, which a cache may know"
  );
}

void add_dataset_flags(CommandLine& line, BenchFlags& flags) {
  DatasetOptions& options = flags.dataset;
  line.add(
      "--dataset-name",
      options.name,
      "random, random-ids, sharegpt, generated-shared-prefix, custom, mooncake, timed_trace, ... "
      "(random)"
  );
  line.add("--dataset-path", options.path, "file of the dataset");
  add_seed_flags(line, flags);
  add_random_flags(line, options);
  line.add("--sharegpt-output-len", options.sharegpt_output_len, "instead of the answers' own");
  line.add("--sharegpt-context-len", options.sharegpt_context_len, "longer pairs are dropped");
  line.add_value(
      "--sharegpt-rule",
      [&options](const std::string& text) -> Result<void> {
        if (text != "vllm" && text != "sglang") {
          return invalid_argument(fmt::format("'{}': expected vllm or sglang", text));
        }
        options.sharegpt_rule_vllm = text == "vllm";
        return {};
      },
      "whose rule says which pairs are dropped (vllm)"
  );
  add_group_flags(line, options);
  add_prefix_repetition_flags(line, options);
  line.add("--mooncake-slowdown-factor", options.mooncake_slowdown, "of the trace's times (1)");
}

void set_default_lengths(DatasetOptions& options, int64_t input_len, int64_t output_len) {
  const bool is_drawn =
      options.path.empty() && (options.name.starts_with("random") || options.name == "emulated" ||
                               options.name == "synthetic_text");
  if (!is_drawn) return;
  if (!options.input_len) options.input_len = input_len;
  if (!options.output_len) options.output_len = output_len;
}

std::optional<int64_t> num_grouped_prompts(const DatasetOptions& options) {
  if (options.name != "generated-shared-prefix" && options.name != "gsp") return std::nullopt;
  return checked_mul(options.gsp_num_groups, options.gsp_prompts_per_group);
}

}  // namespace millrace::bench
