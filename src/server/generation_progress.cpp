#include "server/generation_progress.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace millrace {
namespace {

// Why the engine ended a sequence before its time.
Error error_of(const FinishedEvent& event) {
  if (event.error) return *event.error;
  if (event.reason == FinishReason::kDeadline) {
    return deadline_passed("timeout_s");
  }
  return {ErrorCode::kCancelled, "the server is shutting down"};
}

}  // namespace

GenerationProgress::GenerationProgress(
    const Tokenizer& tokenizer,
    const GenerationRequest& request,
    std::span<const EngineRequest> prompts
)
    : request_(request) {
  const auto n = static_cast<size_t>(request.fields.sampling.n);
  const std::shared_ptr<const StopStrings> stops = stop_strings_of(request.fields);
  prompts_.resize(prompts.size());
  choices_.reserve(prompts.size() * n);
  for (size_t i = 0; i < prompts.size(); ++i) {
    prompts_[i].prompt = prompts[i].prompt;
    usage_.num_prompt_tokens += static_cast<int64_t>(prompts[i].prompt.size());
    for (size_t choice = 0; choice < n; ++choice) {
      choices_.emplace_back(ChoiceText(tokenizer, request.fields, prompts[i].prompt, stops));
      ChoiceText::Echo echo = choices_.back().text.take_echo();
      choices_.back().result.text = std::move(echo.text);
      prompts_[i].text_offsets = std::move(echo.text_offsets);
    }
    prompts_[i].num_echo_bytes = choices_.back().result.text.size();
  }
  num_choices_open_ = static_cast<int32_t>(choices_.size());
}

std::optional<GenerationProgress::News> GenerationProgress::take_token(
    size_t prompt, TokenEvent& event
) {
  const int32_t index = index_of(prompt, event.choice);
  Choice& choice = choices_[static_cast<size_t>(index)];
  // Computed before the engine heard of a stop string, or made to be thrown away.
  if (choice.text.has_stopped() || request_.max_tokens == 0) return std::nullopt;
  ++usage_.num_output_tokens;
  count_cached(prompt, event.choice, event.num_cached_tokens);
  std::optional<News> news(std::in_place);
  news->choice = index;
  if (request_.fields.sampling.logprobs) news->text_offset = choice.text.text_offset();
  news->text = choice.text.push(event);
  news->token = &event.token;
  news->is_stopped_by_text = choice.text.has_stopped();
  return news;
}

// Once for each prompt: with the first token of its first choice, or with its end.
void GenerationProgress::count_cached(size_t prompt, int32_t choice, int32_t num_cached_tokens) {
  if (choice != 0) return;
  bool& is_counted = choices_[static_cast<size_t>(index_of(prompt, choice))].is_cache_counted;
  if (std::exchange(is_counted, true)) return;
  usage_.num_cached_tokens += num_cached_tokens;
  if (!prompts_.empty()) prompts_[prompt].num_cached_tokens = num_cached_tokens;
}

void GenerationProgress::take_prompt_logprobs(size_t prompt, PromptLogprobsEvent& event) {
  auto& logprobs = prompts_[prompt].prompt_logprobs;
  logprobs.insert(
      logprobs.end(),
      std::make_move_iterator(event.logprobs.begin()),
      std::make_move_iterator(event.logprobs.end())
  );
}

Result<GenerationProgress::News> GenerationProgress::take_end(
    size_t prompt, const FinishedEvent& event, bool is_aborted
) {
  const int32_t index = index_of(prompt, event.choice);
  Choice& choice = choices_[static_cast<size_t>(index)];
  choice.result.timings = event.timings;
  count_cached(prompt, event.choice, event.timings.num_cached_tokens);
  News news{.choice = index, .text = choice.text.finish()};
  Result<Ending> ending = ending_of(choice.text, event, is_aborted);
  if (!ending) return ending.error();
  news.ending = *std::move(ending);
  --num_choices_open_;
  return news;
}

// A stop string in the text decides, however the engine's own end came about.
Result<Ending> GenerationProgress::ending_of(
    const ChoiceText& text, const FinishedEvent& event, bool is_aborted
) const {
  if (text.has_stopped()) {
    return Ending{.finish_reason = "stop", .stop_reason = *text.stop_string()};
  }
  Ending ending;
  switch (event.reason) {
    case FinishReason::kStop:
      ending.finish_reason = "stop";
      if (is_stop_token_of_request(event.stop_token)) ending.stop_reason = *event.stop_token;
      break;
    case FinishReason::kLength:
      ending.finish_reason = "length";
      break;
    case FinishReason::kCancelled:
      if (!is_aborted) return error_of(event);
      ending.finish_reason = "abort";
      break;
    case FinishReason::kDeadline:
    case FinishReason::kError:
      return error_of(event);
  }
  if (request_.max_tokens == 0) return Ending{.finish_reason = "length", .stop_reason = {}};
  return ending;
}

bool GenerationProgress::is_stop_token_of_request(std::optional<TokenId> id) const {
  const SharedList<TokenId>& ids = request_.fields.sampling.stop_token_ids;
  return id && std::find(ids.begin(), ids.end(), *id) != ids.end();
}

void GenerationProgress::keep(const News& news) {
  ChoiceResult& result = choices_[static_cast<size_t>(news.choice)].result;
  result.text.append(news.text);
  if (news.text_offset) result.text_offsets.push_back(*news.text_offset);
  if (news.token != nullptr) result.tokens.push_back(std::move(*news.token));
  if (news.ending) result.ending = *news.ending;
}

std::string GenerationProgress::take_echo(int32_t choice) {
  return std::exchange(choices_[static_cast<size_t>(choice)].result.text, {});
}

bool GenerationProgress::lacks_prompt_logprobs() const {
  return std::ranges::any_of(prompts_, [](const PromptResult& prompt) {
    return prompt.prompt_logprobs.size() + 1 < prompt.prompt.size();
  });
}

int32_t GenerationProgress::index_of(size_t prompt, int32_t choice) const {
  return static_cast<int32_t>(prompt) * request_.fields.sampling.n + choice;
}

const SequenceTimings& GenerationProgress::timings(int32_t choice) const {
  return choices_[static_cast<size_t>(choice)].result.timings;
}

GenerationResult GenerationProgress::take_result() {
  for (size_t i = 0; i < choices_.size(); ++i) {
    const size_t prompt = i / static_cast<size_t>(request_.fields.sampling.n);
    prompts_[prompt].choices.push_back(std::move(choices_[i].result));
  }
  return {.prompts = std::move(prompts_), .usage = usage_};
}

}  // namespace millrace
