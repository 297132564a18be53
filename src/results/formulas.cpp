#include "results/formulas.h"

#include <algorithm>

#include "base/check.h"

namespace millrace::bench {
namespace {

double to_ms(Nanos duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

Measured measured(Nanos from, Nanos to, bool is_censored = false) {
  return {.ms = to_ms(to - from), .is_censored = is_censored};
}

int64_t prompt_tokens(const RequestRecord& request) {
  return request.num_prompt_tokens.value_or(request.num_prompt_tokens_planned);
}

// The gap of each chunk to the one before it.
std::vector<Gap> chunk_gaps(std::span<const Chunk> chunks) {
  std::vector<Gap> gaps;
  for (size_t i = 1; i < chunks.size(); ++i) {
    gaps.push_back({.ms = to_ms(chunks[i].at() - chunks[i - 1].at()), .at = chunks[i].at()});
  }
  return gaps;
}

// The gap that brought k tokens counts k times, as a k-th of it: each token waited as long as all.
std::vector<Gap> token_gaps(std::span<const TokenEvent> events) {
  std::vector<Gap> gaps;
  for (size_t i = 1; i < events.size(); ++i) {
    const double num_tokens = std::max(1.0, events[i].num_tokens);
    gaps.push_back({
        .ms = to_ms(events[i].at - events[i - 1].at) / num_tokens,
        .weight = num_tokens,
        .at = events[i].at,
    });
  }
  return gaps;
}

std::vector<TokenEvent> one_token_each(std::span<const Chunk> chunks) {
  std::vector<TokenEvent> events;
  for (const Chunk& chunk : chunks) events.push_back({.at = chunk.at(), .num_tokens = 1.0});
  return events;
}

// (e2e - ttft) / (n - 1), which vLLM, SGLang and, as its ITL, aiperf use.
std::optional<Measured> time_per_later_token(const RequestFigures& figures) {
  if (!figures.ttft || !figures.e2e || figures.num_output_tokens <= 1) return std::nullopt;
  const auto num_later = static_cast<double>(figures.num_output_tokens - 1);
  return Measured{.ms = (figures.e2e->ms - figures.ttft->ms) / num_later};
}

RequestFigures started(const RequestRecord& request, Nanos end) {
  RequestFigures figures;
  figures.span = {.begin = request.admitted, .end = end};
  figures.e2e = measured(request.admitted, end);
  figures.num_input_tokens = prompt_tokens(request);
  figures.num_output_tokens = request.num_output_tokens;
  return figures;
}

RequestFigures vllm_figures(const RequestRecord& request) {
  RequestFigures figures = started(request, request.last_chunk.value_or(request.ended));
  figures.num_output_tokens = std::max<int64_t>(1, request.num_output_tokens);
  figures.first = request.first_chunk;
  if (figures.first) figures.ttft = measured(request.admitted, *figures.first);
  figures.tpot = time_per_later_token(figures);
  figures.itl = chunk_gaps(request.chunks);
  figures.tokens = one_token_each(request.chunks);
  figures.queue_time = measured(request.scheduled, request.admitted);
  figures.e2e_scheduled = measured(request.scheduled, figures.span.end);
  return figures;
}

RequestFigures sglang_figures(const RequestRecord& request, bool is_native) {
  RequestFigures figures = started(request, request.ended);
  // What was asked for; the server's count is not looked at.
  figures.num_input_tokens = request.num_prompt_tokens_planned;
  figures.first = first_text_or_whole(request);
  if (figures.first) figures.ttft = measured(request.admitted, *figures.first);
  figures.tpot = time_per_later_token(figures);
  const std::vector<Chunk> chunks = content_chunks(request, request.first_text);
  figures.tokens = one_token_each(chunks);
  figures.itl = is_native ? token_gaps(token_events(request, chunks)) : chunk_gaps(chunks);
  return figures;
}

RequestFigures guidellm_figures(const RequestRecord& request) {
  RequestFigures figures = started(request, request.ended);
  figures.first = request.first_text;
  const Nanos last = request.last_token.value_or(request.ended);
  const auto num_tokens = static_cast<double>(request.num_output_tokens);
  if (figures.first) figures.ttft = measured(request.admitted, *figures.first);
  if (request.num_output_tokens > 0) {
    figures.tpot = {.ms = to_ms(last - request.admitted) / num_tokens, .weight = num_tokens};
  }
  if (figures.first && request.last_token && request.num_output_tokens > 1) {
    figures.itl = {{
        .ms = to_ms(last - *figures.first) / (num_tokens - 1.0),
        .weight = num_tokens - 1.0,
        .at = last,
    }};
  }
  figures.icl = chunk_gaps(content_chunks(request, request.first_text));
  return figures;
}

RequestFigures guidellm01_figures(const RequestRecord& request) {
  RequestFigures figures = started(request, request.ended);
  figures.first = request.first_text;
  if (figures.first) figures.ttft = measured(request.admitted, *figures.first);
  figures.itl = chunk_gaps(content_chunks(request, request.first_text));
  return figures;
}

RequestFigures aiperf_figures(const RequestRecord& request) {
  const std::vector<Chunk> chunks = content_chunks(request, request.first_text);
  const Nanos last =
      chunks.empty() ? request.last_token.value_or(request.ended) : chunks.back().at();
  RequestFigures figures = started(request, last);
  figures.first = request.first_text;
  if (figures.first) figures.ttft = measured(request.admitted, *figures.first);
  if (const auto itl = time_per_later_token(figures)) {
    figures.itl = {{.ms = itl->ms, .at = last}};
  }
  figures.icl = chunk_gaps(chunks);
  return figures;
}

RequestFigures grid_figures(const RequestRecord& request) {
  RequestFigures figures = started(request, request.ended);
  figures.first = first_text_or_whole(request);
  if (!figures.first) figures.first = request.first_chunk;
  if (figures.first) figures.ttft = measured(request.admitted, *figures.first);
  return figures;
}

// Where a gap brought no whole number of tokens, since only the total is known, it stands once.
void make_weights_whole(std::vector<Gap>& gaps, const RequestRecord& request) {
  if (request.output_source != TokenSource::kUsage) return;
  for (Gap& gap : gaps) gap.weight = 1.0;
}

RequestFigures millrace_figures(const PointPlan& plan, const RequestRecord& request) {
  const bool is_censored = request.outcome == Outcome::kUnfinished;
  RequestFigures figures;
  const Nanos last = is_censored ? request.ended : request.last_token.value_or(request.ended);
  figures.span = {.begin = request.sent, .end = last};
  figures.num_input_tokens = prompt_tokens(request);
  figures.num_output_tokens = request.num_output_tokens;
  figures.first = request.first_token ? request.first_token : request.first_text;
  // A first token that came is no less known because the rest did not.
  const bool is_first_missing = !figures.first && is_censored && plan.is_streamed;
  if (const Nanos first = figures.first.value_or(last); figures.first || is_first_missing) {
    figures.ttft = measured(request.sent, first, is_first_missing);
    figures.ttft_scheduled = measured(request.scheduled, first, is_first_missing);
  }
  figures.e2e = measured(request.sent, last, is_censored);
  figures.e2e_scheduled = measured(request.scheduled, last, is_censored);
  figures.queue_time = measured(request.scheduled, request.sent);
  const std::vector<Chunk> chunks = content_chunks(request, figures.first);
  figures.tokens = token_events(request, chunks);
  figures.icl = chunk_gaps(chunks);
  figures.itl = token_gaps(figures.tokens);
  make_weights_whole(figures.itl, request);
  if (is_censored || !figures.first) return figures;
  const double num_first =
      figures.tokens.empty() ? 1.0 : std::max(1.0, figures.tokens.front().num_tokens);
  const double num_later = static_cast<double>(request.num_output_tokens) - num_first;
  if (num_later >= 1.0) figures.tpot = Measured{.ms = to_ms(last - *figures.first) / num_later};
  return figures;
}

}  // namespace

RequestFigures request_figures(
    Formulas formulas, const PointPlan& plan, const RequestRecord& request
) {
  switch (formulas) {
    case Formulas::kMillrace:
      return millrace_figures(plan, request);
    case Formulas::kVllm:
      return vllm_figures(request);
    case Formulas::kSglang:
      return sglang_figures(request, plan.endpoint.ends_with("/generate"));
    case Formulas::kGuidellm:
      return guidellm_figures(request);
    case Formulas::kGuidellm01:
      return guidellm01_figures(request);
    case Formulas::kAiperf:
      return aiperf_figures(request);
    case Formulas::kGrid:
      return grid_figures(request);
  }
  CHECK(false, "formulas of no tool");
}

std::optional<Nanos> first_text_or_whole(const RequestRecord& request) {
  return request.came_whole() ? request.ended : request.first_text;
}

Quantiles quantiles_of(Formulas formulas) {
  return formulas == Formulas::kGuidellm ? Quantiles::kWeightedCdf : Quantiles::kLinear;
}

std::vector<Chunk> content_chunks(const RequestRecord& request, std::optional<Nanos> first) {
  std::vector<Chunk> chunks;
  const bool is_output_known = std::any_of(
      request.chunks.begin(), request.chunks.end(), [](const Chunk& c) { return c.num_tokens > 0; }
  );
  for (const Chunk& chunk : request.chunks) {
    if (is_output_known && chunk.num_tokens == 0) continue;
    if (first && chunk.at() < *first) continue;
    if (request.last_token && chunk.at() > *request.last_token) continue;
    chunks.push_back(chunk);
  }
  return chunks;
}

std::vector<TokenEvent> token_events(const RequestRecord& request, std::span<const Chunk> chunks) {
  std::vector<TokenEvent> events;
  const double share =
      static_cast<double>(request.num_output_tokens) / static_cast<double>(chunks.size());
  const bool is_counted = request.output_source != TokenSource::kUsage;
  for (const Chunk& chunk : chunks) {
    const auto num_tokens = static_cast<double>(chunk.num_tokens);
    const bool has_count = is_counted && chunk.num_tokens > 0;
    events.push_back({.at = chunk.at(), .num_tokens = has_count ? num_tokens : share});
  }
  return events;
}

}  // namespace millrace::bench
