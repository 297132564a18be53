// "generated-shared-prefix" (SGLang) and "prefix_repetition" (vLLM): groups of prompts that have
// a long beginning in common.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "base/rng.h"
#include "workload/dataset_kinds.h"

namespace millrace::bench {
namespace {

constexpr uint64_t kGroupSalt = 0x67726f7570;
constexpr uint64_t kOrderSalt = 0x6f72646572;
constexpr uint64_t kZipfSalt = 0x7a697066;
constexpr int64_t kPromptsMax = int64_t{1} << 24;

struct SharedPrefixPlan {
  int64_t num_groups = 0, prompts_per_group = 0;
  int64_t prefix_len = 0, question_len = 0, output_len = 0;
  int64_t num_turns = 1;
  bool is_ordered = false;
  std::optional<double> zipf_alpha;
};

class SharedPrefixDataset : public Dataset {
 public:
  SharedPrefixDataset(const DatasetOptions& options, WriterPtr writer, const SharedPrefixPlan& plan)
      : options_(options), keys_(run_keys(options)), writer_(std::move(writer)), plan_(plan) {
    draw_groups();
    const size_t num_prompts = groups_.size();
    size_ = std::min(options.num_sessions.value_or(num_prompts), num_prompts);
  }

  std::optional<size_t> size() const override { return size_; }

  Result<PlannedSession> session(size_t index) const override {
    CHECK(index < size_, "a session beyond the last");
    PlannedSession session;
    const uint64_t key = key_of(keys_.texts, index);
    for (int64_t turn = 0; turn < plan_.num_turns; ++turn) {
      Result<PlannedRequest> request =
          prompt(index, key_of(key, static_cast<uint64_t>(turn)), turn);
      if (!request) return request.error();
      request->num_output_tokens = plan_.output_len;
      if (turn > 0) request->think_time = options_.think_time;
      session.turns.push_back(*std::move(request));
    }
    return session;
  }

 private:
  Result<PlannedRequest> prompt(size_t index, uint64_t key, int64_t turn) const {
    const bool is_first = turn == 0;
    std::vector<RandomRun> runs = {{key, plan_.question_len}};
    if (is_first) {
      // What the server adds stands in front of the prefix, and counts as a part of it.
      const int64_t num_shared = writer_->without_added(plan_.prefix_len, options_.sends_token_ids);
      const int64_t num_tokens =
          writer_->without_added(plan_.prefix_len + plan_.question_len, options_.sends_token_ids);
      const uint64_t group_key = key_of(key_of(keys_.texts, kGroupSalt), groups_[index]);
      runs = {{group_key, num_shared}, {key, num_tokens - num_shared}};
    }
    Result<CountedText> text = writer_->write(runs, !is_first);
    if (!text) return text.error();
    Result<PlannedRequest> request = writer_->plan(*std::move(text), options_.sends_token_ids);
    if (request && !is_first && !options_.sends_token_ids) {
      request->num_prompt_tokens -= static_cast<int64_t>(writer_->codec().num_added_tokens());
    }
    return request;
  }

  // The group of each prompt: each as often, or by Zipf's law; one after the other, or mixed.
  void draw_groups() {
    const size_t num_groups = static_cast<size_t>(plan_.num_groups);
    groups_.resize(num_groups * static_cast<size_t>(plan_.prompts_per_group));
    const std::vector<double> shares = zipf_shares();
    for (size_t i = 0; i < groups_.size(); ++i) {
      const size_t even = i / static_cast<size_t>(plan_.prompts_per_group);
      groups_[i] = static_cast<uint32_t>(plan_.zipf_alpha ? zipf_group(shares, i) : even);
    }
    if (plan_.is_ordered) {
      std::sort(groups_.begin(), groups_.end());
      return;
    }
    Rng rng(key_of(keys_.lengths, kOrderSalt));
    for (size_t i = groups_.size(); i > 1; --i) std::swap(groups_[i - 1], groups_[rng.below(i)]);
  }

  // Of group r and all before it: the sum of (r + 1)^-alpha, as a share of all.
  std::vector<double> zipf_shares() const {
    std::vector<double> shares(static_cast<size_t>(plan_.num_groups));
    double sum = 0.0;
    for (size_t i = 0; i < shares.size(); ++i) {
      sum += std::pow(static_cast<double>(i + 1), -plan_.zipf_alpha.value_or(0.0));
      shares[i] = sum;
    }
    for (double& share : shares) share /= sum;
    return shares;
  }

  size_t zipf_group(const std::vector<double>& shares, size_t index) const {
    const double drawn = random_unit(key_of(keys_.lengths, kZipfSalt), index);
    const auto found = std::upper_bound(shares.begin(), shares.end() - 1, drawn);
    return static_cast<size_t>(found - shares.begin());
  }

  DatasetOptions options_;
  RunKeys keys_;
  WriterPtr writer_;
  SharedPrefixPlan plan_;
  std::vector<uint32_t> groups_;  // [num_groups * prompts_per_group]
  size_t size_ = 0;
};

Error bad_count(const char* flag, int64_t value, int64_t low) {
  return invalid_argument(
      fmt::format("{} is {}, expected from {} to {}", flag, value, low, kPromptsMax), flag
  );
}

Result<void> check_count(const char* flag, int64_t value, int64_t low) {
  if (value < low || value > kPromptsMax) return bad_count(flag, value, low);
  return {};
}

Result<void> check_gsp(const DatasetOptions& options) {
  const struct {
    const char* flag;
    int64_t value, low;
  } counts[] = {
      {"--gsp-num-groups", options.gsp_num_groups, 1},
      {"--gsp-prompts-per-group", options.gsp_prompts_per_group, 1},
      {"--gsp-system-prompt-len", options.gsp_system_prompt_len, 0},
      {"--gsp-question-len", options.gsp_question_len, 1},
      {"--gsp-output-len", options.gsp_output_len, 1},
      {"--gsp-num-turns", options.gsp_num_turns, 1}};
  for (const auto& [flag, value, low] : counts) {
    if (Result<void> checked = check_count(flag, value, low); !checked) return checked;
  }
  const std::optional<double>& alpha = options.gsp_zipf_alpha;
  if (alpha && !(*alpha >= 0.0 && *alpha <= 100.0)) {
    return invalid_argument(
        fmt::format("--gsp-zipf-alpha is {}, expected a number from 0 to 100", *alpha),
        "--gsp-zipf-alpha"
    );
  }
  return {};
}

DatasetResult make_from_plan(
    const DatasetOptions& options, WriterPtr writer, const SharedPrefixPlan& plan, const char* flag
) {
  const std::optional<int64_t> num_prompts = checked_mul(plan.num_groups, plan.prompts_per_group);
  if (!num_prompts || *num_prompts > kPromptsMax) {
    return invalid_argument(
        fmt::format(
            "{} groups of {} prompts are more than {}",
            plan.num_groups,
            plan.prompts_per_group,
            kPromptsMax
        ),
        flag
    );
  }
  if (plan.prefix_len > kPromptTokensMax - plan.question_len) {
    return invalid_argument(
        fmt::format("a prompt may have up to {} tokens", kPromptTokensMax), flag
    );
  }
  return std::unique_ptr<Dataset>(
      std::make_unique<SharedPrefixDataset>(options, std::move(writer), plan)
  );
}

}  // namespace

DatasetResult make_shared_prefix_dataset(const DatasetOptions& options, WriterPtr writer) {
  if (Result<void> checked = check_gsp(options); !checked) return checked.error();
  const SharedPrefixPlan plan{
      .num_groups = options.gsp_num_groups,
      .prompts_per_group = options.gsp_prompts_per_group,
      .prefix_len = options.gsp_system_prompt_len,
      .question_len = options.gsp_question_len,
      .output_len = options.gsp_output_len,
      .num_turns = options.gsp_num_turns,
      .is_ordered = options.gsp_is_ordered,
      .zipf_alpha = options.gsp_zipf_alpha};
  return make_from_plan(options, std::move(writer), plan, "--gsp-num-groups");
}

DatasetResult make_prefix_repetition_dataset(const DatasetOptions& options, WriterPtr writer) {
  const struct {
    const char* flag;
    int64_t value, low;
  } counts[] = {
      {"--prefix-repetition-num-prefixes", options.prefix_repetition_num_prefixes, 1},
      {"--prefix-repetition-prefix-len", options.prefix_repetition_prefix_len, 0},
      {"--prefix-repetition-suffix-len", options.prefix_repetition_suffix_len, 1},
      {"--prefix-repetition-output-len", options.prefix_repetition_output_len, 1}};
  for (const auto& [flag, value, low] : counts) {
    if (Result<void> checked = check_count(flag, value, low); !checked) return checked.error();
  }
  const size_t num_prefixes = static_cast<size_t>(options.prefix_repetition_num_prefixes);
  const size_t num_prompts = options.num_sessions.value_or(0);
  if (num_prompts < num_prefixes || num_prompts > static_cast<size_t>(kPromptsMax)) {
    return invalid_argument(
        fmt::format(
            "'prefix_repetition' needs --num-prompts, at least one for each of its {} prefixes",
            num_prefixes
        ),
        "--num-prompts"
    );
  }
  // vLLM gives each prefix as many, and drops what is left over.
  const SharedPrefixPlan plan{
      .num_groups = options.prefix_repetition_num_prefixes,
      .prompts_per_group = static_cast<int64_t>(num_prompts / num_prefixes),
      .prefix_len = options.prefix_repetition_prefix_len,
      .question_len = options.prefix_repetition_suffix_len,
      .output_len = options.prefix_repetition_output_len};
  return make_from_plan(options, std::move(writer), plan, "--prefix-repetition-num-prefixes");
}

}  // namespace millrace::bench
