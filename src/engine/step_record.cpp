#include "engine/step_record.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

int64_t nanoseconds(TimePoint time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

template <class... Values>
void append(std::string& text, fmt::format_string<Values...> format, Values&&... values) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Values>(values)...);
}

// A prompt has thousands of them, and the engine waits.
void append_ids(std::span<const TokenId> ids, std::string& text) {
  text += '[';
  for (const TokenId& id : ids) {
    if (&id != &ids.front()) text += ',';
    const fmt::format_int digits(id);
    text.append(digits.data(), digits.size());
  }
  text += ']';
}

void append_tokens(const SampledTokens& tokens, std::string& text) {
  if (tokens.size() == 1) return append(text, "{}", tokens[0].id);
  std::vector<TokenId> ids;
  for (const SampledToken& token : tokens) ids.push_back(token.id);
  append_ids(ids, text);
}

void append_slot(std::optional<HiddenSlotId> slot, std::string& text) {
  if (slot) {
    append(text, ",{}", slot->value);
  } else {
    text += ",null";
  }
}

void append_config(const SchedulerConfig& config, std::string& text) {
  append(
      text,
      R"({{"millrace_steps":{},"policy":"{}","max_num_batched_tokens":{},)"
      R"("long_prefill_token_threshold":{},"max_num_seqs":{},"max_logit_rows":{},)",
      kStepRecordVersion,
      name_of(config.policy),
      config.max_num_batched_tokens,
      config.long_prefill_token_threshold,
      config.max_num_seqs,
      config.max_logit_rows
  );
  append(
      text,
      R"("max_model_len":{},"block_size":{},"num_blocks":{},"enable_prefix_caching":{},)"
      R"("num_hidden_slots":{},"eos_token_ids":)",
      config.max_model_len,
      config.block_size,
      config.num_blocks,
      config.enable_prefix_caching,
      config.num_hidden_slots
  );
  append_ids(config.eos_token_ids, text);
  text += R"(,"speculation":)";
  if (const auto& speculation = config.speculation) {
    append(
        text,
        "[{},{},{}]",
        speculation->num_speculative_tokens,
        speculation->prompt_lookup_max,
        speculation->prompt_lookup_min
    );
  } else {
    text += "null";
  }
  text += "}\n";
}

void append_sampling(const SamplingParams& sampling, std::string& text) {
  append(
      text,
      R"(,"max_tokens":{},"min_tokens":{},"n":{},"ignore_eos":{},"stop_token_ids":)",
      sampling.max_tokens,
      sampling.min_tokens,
      sampling.n,
      sampling.ignore_eos
  );
  append_ids(sampling.stop_token_ids, text);
  if (sampling.prompt_logprobs) {
    append(text, R"(,"prompt_logprobs":{})", *sampling.prompt_logprobs);
  } else {
    text += R"(,"prompt_logprobs":null)";
  }
}

}  // namespace

void append_plan_line(const StepPlan& plan, TimePoint now, std::string& lines) {
  append(lines, R"({{"call":"plan","now":{},"scheduled":[)", nanoseconds(now));
  for (const ScheduledSequence& stretch : plan.scheduled) {
    append(
        lines,
        "{}[{},{},{},{},{}",
        &stretch == &plan.scheduled.front() ? "" : ",",
        stretch.sequence->request().id.value,
        stretch.sequence->choice(),
        stretch.first_token,
        stretch.num_tokens,
        stretch.num_logit_rows
    );
    append_slot(stretch.resumed_from, lines);
    append_slot(stretch.saved_to, lines);
    if (stretch.num_drafts > 0) {
      lines += ',';
      append_ids(stretch.sequence->drafts(), lines);
    }
    lines += ']';
  }
  lines += R"(],"copies":[)";
  for (const BlockCopy& copy : plan.copies) {
    const char* comma = &copy == &plan.copies.front() ? "" : ",";
    append(lines, "{}[{},{}]", comma, copy.from.value, copy.to.value);
  }
  lines += R"(],"dropped":[)";
  for (const FinishedEvent& end : plan.dropped) {
    const char* comma = &end == &plan.dropped.front() ? "" : ",";
    append(lines, R"({}[{},{},"{}"])", comma, end.request.value, end.choice, name_of(end.reason));
  }
  lines += "]}\n";
}

StepRecorder::StepRecorder(Write write, const SchedulerConfig& config) : write_(std::move(write)) {
  CHECK(write_ != nullptr, "a recorder has somewhere to write to");
  append_config(config, lines_);
  flush();
}

void StepRecorder::add(const Request& request) {
  if (!write_) return;
  append(lines_, R"({{"call":"add","id":{},"prompt":)", request.id.value);
  append_ids(request.prompt, lines_);
  append_sampling(request.sampling, lines_);
  append(lines_, R"(,"priority":{},"arrival":{})", request.priority, nanoseconds(request.arrival));
  if (request.deadline) {
    append(lines_, R"(,"deadline":{})", nanoseconds(*request.deadline));
  } else {
    lines_ += R"(,"deadline":null)";
  }
  append(
      lines_,
      R"(,"prefix_root":"{:016x}{:016x}","tenant":{}}})",
      request.prefix_root.high,
      request.prefix_root.low,
      request.tenant.value
  );
  lines_ += '\n';
}

void StepRecorder::cancel(std::optional<RequestId> id, std::optional<int32_t> choice) {
  CHECK(id || !choice, "a choice of no request");
  if (!write_) return;
  lines_ += R"({"call":"cancel")";
  if (id) append(lines_, R"(,"id":{})", id->value);
  if (choice) append(lines_, R"(,"choice":{})", *choice);
  lines_ += "}\n";
}

void StepRecorder::plan(const StepPlan& plan, TimePoint now) {
  const bool is_nothing = plan.is_empty() && plan.dropped.empty();
  if (write_ && !is_nothing) append_plan_line(plan, now, lines_);
}

void StepRecorder::commit(std::span<const StepOutcome> outcomes, TimePoint now) {
  if (!write_) return;
  append(lines_, R"({{"call":"commit","now":{},"outcomes":[)", nanoseconds(now));
  for (const StepOutcome& outcome : outcomes) {
    if (&outcome != &outcomes.front()) lines_ += ',';
    if (const auto* tokens = std::get_if<SampledTokens>(&outcome)) {
      append_tokens(*tokens, lines_);
    } else {
      lines_ += std::holds_alternative<Error>(outcome) ? R"("error")" : "null";
    }
  }
  lines_ += "]}\n";
}

void StepRecorder::flush() {
  if (lines_.empty() || !write_) return;
  if (!write_(lines_)) write_ = nullptr;
  lines_.clear();
}

}  // namespace millrace
