#include "server/engine_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error_reason.h"
#include "engine/admission.h"
#include "server/prompt.h"
#include "server/protocol/openai_fields.h"

namespace millrace {
namespace {

// Prompts are counted up to so many times what the model takes, so that an error can say how long
// they are, and megabytes of text are not tokenized for nothing.
constexpr size_t kCountedContexts = 4;

// The JSON path of a prompt.
std::string path_of(const GenerationRequest& request, size_t index) {
  const std::string field(prompt_field(request));
  return request.prompts.size() > 1 ? fmt::format("{}[{}]", field, index) : field;
}

// `num_prompt_tokens`: the number, or what stands for it.
Error too_long(
    std::string_view num_prompt_tokens, int64_t max_tokens, int32_t bound, std::string where
) {
  std::string message = fmt::format(
      "this model takes at most {} tokens; the prompt has {}", bound, num_prompt_tokens
  );
  if (max_tokens > 0) message += fmt::format(" and {} more were asked for", max_tokens);
  return {
      ErrorCode::kInvalidArgument, std::move(message), std::move(where), "context_length_exceeded"};
}

// `where`: the prompt's JSON path.
Result<std::vector<TokenId>> tokenize(
    PromptInput& input,
    const GenerationRequest& request,
    const ModelText& text,
    int32_t bound,
    std::chrono::local_seconds now,
    const std::string& where
) {
  if (auto* ids = std::get_if<std::vector<TokenId>>(&input)) return std::move(*ids);
  EncodeOptions options{.add_special_tokens = request.add_special_tokens};
  std::string_view plain;
  RenderedChat chat;
  if (const auto* given = std::get_if<std::string>(&input)) {
    plain = *given;
  } else {
    auto& messages = std::get<ChatInput>(input);
    messages.now = now;
    Result<RenderedChat> rendered = render_chat(text, messages);
    if (!rendered) return rendered.error();
    chat = *std::move(rendered);
    plain = chat.text;
    options.plain_text = chat.input_ranges;
  }
  if (request.truncate_prompt_tokens) return text.tokenizer.encode(plain, options);
  const size_t num_counted_max = kCountedContexts * static_cast<size_t>(bound);
  auto ids = text.tokenizer.encode_at_most(num_counted_max, plain, options);
  if (ids) return *std::move(ids);
  return too_long(fmt::format("more than {}", num_counted_max), 0, bound, where);
}

// How many tokens a prompt of this length gets at most.
Result<int32_t> max_tokens_of(
    const GenerationRequest& request,
    size_t num_prompt_tokens,
    const EngineLimits& limits,
    const std::string& where
) {
  const int64_t bound = limits.num_sequence_tokens_max;
  const int64_t room = bound - static_cast<int64_t>(num_prompt_tokens);
  const auto refuse = [&](int64_t num_asked_for) {
    return too_long(
        std::to_string(num_prompt_tokens), num_asked_for, limits.num_sequence_tokens_max, where
    );
  };
  if (room < 1) return refuse(0);
  if (!request.max_tokens) {
    return static_cast<int32_t>(std::min<int64_t>(room, request.max_tokens_default));
  }
  if (*request.max_tokens > room) return refuse(*request.max_tokens);
  // Where only the prompt is wanted, one token is made and thrown away.
  return std::max(*request.max_tokens, 1);
}

// The engine sees one prompt after the other: that they never fit together shows only here.
Result<void> check_together(
    std::span<const EngineRequest> requests, const EngineLimits& limits, const std::string& where
) {
  int64_t num_bytes = 0;
  int64_t num_seqs = 0;
  for (const EngineRequest& request : requests) {
    num_seqs += request.sampling.n;
    num_bytes += result_bytes_max(request, limits).total(request.sampling.n);
  }
  if (num_seqs > limits.max_num_live_seqs) {
    return invalid_argument(
        fmt::format(
            "{} prompts with n = {} are {} choices, and the server takes at most {} at once",
            requests.size(),
            requests.front().sampling.n,
            num_seqs,
            limits.max_num_live_seqs
        ),
        where,
        error_reason::kArrayAboveMax
    );
  }
  if (num_bytes > limits.admission.max_result_bytes) {
    return invalid_argument(
        fmt::format(
            "tokens and logprobs of {} prompts could take {} bytes, and at most {} may",
            requests.size(),
            num_bytes,
            limits.admission.max_result_bytes
        ),
        where
    );
  }
  return {};
}

void keep_last(std::vector<TokenId>& ids, int32_t num_kept) {
  const auto kept = static_cast<size_t>(num_kept);
  if (ids.size() > kept) ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(kept));
}

EngineRequest engine_request_of(
    const GenerationRequest& request,
    std::vector<TokenId> prompt,
    int32_t max_tokens,
    TimePoint arrival
) {
  EngineRequest engine_request{
      .prompt = std::move(prompt),
      .sampling = request.fields.sampling,
      .priority = request.fields.priority,
      .arrival = arrival,
      .cache_salt = request.cache_salt,
      .tenant = request.tenant,
  };
  SamplingParams& sampling = engine_request.sampling;
  sampling.max_tokens = max_tokens;
  sampling.min_tokens = std::min(sampling.min_tokens, max_tokens);
  if (request.fields.timeout_s) {
    const std::chrono::duration<double> timeout(*request.fields.timeout_s);
    engine_request.deadline = arrival + std::chrono::duration_cast<Duration>(timeout);
  }
  return engine_request;
}

}  // namespace

Result<std::vector<EngineRequest>> build_engine_requests(
    GenerationRequest& request,
    const ModelText& text,
    const EngineLimits& limits,
    TimePoint arrival,
    std::chrono::local_seconds now
) {
  std::vector<EngineRequest> built;
  built.reserve(request.prompts.size());
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    const std::string where = path_of(request, i);
    Result<std::vector<TokenId>> prompt =
        tokenize(request.prompts[i], request, text, limits.num_sequence_tokens_max, now, where);
    if (!prompt) return prompt.error();
    if (prompt->empty()) return invalid_argument("the prompt has no tokens", where);
    if (request.truncate_prompt_tokens) keep_last(*prompt, *request.truncate_prompt_tokens);
    const Result<int32_t> max_tokens = max_tokens_of(request, prompt->size(), limits, where);
    if (!max_tokens) return max_tokens.error();
    built.push_back(engine_request_of(request, *std::move(prompt), *max_tokens, arrival));
  }
  if (built.size() > 1) {
    const Result<void> checked = check_together(built, limits, std::string(prompt_field(request)));
    if (!checked) return checked.error();
  }
  // They may be megabytes.
  for (PromptInput& prompt : request.prompts) prompt = std::string();
  return built;
}

}  // namespace millrace
