#include "results/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "results/judge_rules.h"
#include "results/names.h"

namespace millrace::bench {
namespace {

// What an honest row may be off by: in lengths, in hits, in failures.
constexpr double kShareOff = 0.01;
constexpr double kShareUnfinished = 0.05;
// Below it a p99 is one of the three longest.
constexpr int64_t kSamplesForP99 = 300;
constexpr int64_t kWavesMin = 10;
// A cache keeps whole blocks only, and the last token of a prompt is always computed.
constexpr double kHitTokensOff = 33.0;
constexpr double kHitShareOff = 0.05;
// What prompts have in common by themselves, and a cache of single tokens finds: what a tokenizer
// puts in front (Llama's one, GLM's two), and the first of a random word's tokens where there are
// few to choose from. Of prompts of 32 tokens that is more than 1 %.
constexpr double kCommonTokens = 4.0;
// What an event of a token takes to arrive behind another where both come in one piece: 250 bytes
// at 25 MB/s. No server computes a token in that time.
constexpr Nanos kEventTime{10'000};

double share(int64_t part, size_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

double percent(double share) {
  return 100.0 * share;
}

bool is_endpoint(const Evidence& evidence, std::string_view part) {
  return evidence.record.plan.endpoint.find(part) != std::string::npos;
}

bool is_plain_random(const DatasetPlan& dataset) {
  return dataset.name == "random" || dataset.name == "random-ids";
}

double median(std::vector<int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return static_cast<double>(*middle);
}

// Whether the server's count of its prompt compares with the plan. That of a later turn does not:
// the plan has what the turn adds, the server counts the conversation so far.
bool has_comparable_prompt(const RequestRecord& request) {
  return request.turn == 0 && request.num_prompt_tokens && request.num_prompt_tokens_planned != 0;
}

// By how much the server's counts of prompts are longer than planned.
std::vector<int64_t> prompt_overheads(const Evidence& evidence) {
  std::vector<int64_t> overheads;
  for (const RequestRecord* request : evidence.completed) {
    if (!has_comparable_prompt(*request)) continue;
    overheads.push_back(*request->num_prompt_tokens - request->num_prompt_tokens_planned);
  }
  return overheads;
}

// A chat's template is the same in front of each prompt, and may be found in the cache.
double template_tokens(const Evidence& evidence) {
  const std::vector<int64_t> overheads = prompt_overheads(evidence);
  if (!is_endpoint(evidence, "chat") || overheads.empty()) return 0.0;
  return std::max(0.0, median(overheads));
}

struct PrefixHits {
  double mean_prompt = 0.0;  // tokens
  double mean_found = 0.0;   // of them, in the server's cache
};

// Of all prompts; where sessions have later turns, which find their own conversation in the cache
// as they should, of the first turns alone. none: the server does not say.
std::optional<PrefixHits> prefix_hits(const Evidence& evidence) {
  const bool has_later_turns = std::ranges::any_of(
      evidence.completed, [](const RequestRecord* request) { return request->turn > 0; }
  );
  if (!has_later_turns) {
    if (!evidence.ours.prefix_hit_rate) return std::nullopt;
    const double mean_prompt = static_cast<double>(*evidence.ours.num_input_tokens) /
                               static_cast<double>(evidence.completed.size());
    return PrefixHits{mean_prompt, *evidence.ours.prefix_hit_rate * mean_prompt};
  }
  PrefixHits sums;
  double num_first = 0.0;
  for (const RequestRecord* request : evidence.completed) {
    if (request->turn > 0 || !request->num_prompt_tokens || !request->num_cached_tokens) continue;
    sums.mean_prompt += static_cast<double>(*request->num_prompt_tokens);
    sums.mean_found += static_cast<double>(*request->num_cached_tokens);
    num_first += 1.0;
  }
  if (num_first == 0.0) return std::nullopt;
  return PrefixHits{sums.mean_prompt / num_first, sums.mean_found / num_first};
}

}  // namespace

void judge_completeness(const Evidence& evidence) {
  const size_t num_measured = evidence.measured.size();
  if (evidence.completed.empty()) {
    evidence.add(
        Trust::kInvalid,
        "nothing_completed",
        fmt::format("none of {} requests completed", num_measured)
    );
  }
  const StopReason reason = evidence.record.stop_reason;
  if (reason == StopReason::kMaxSeconds || reason == StopReason::kPrecise) return;
  const int64_t num_planned = evidence.record.plan.num_prompts;
  if (std::cmp_greater_equal(num_measured, num_planned)) return;
  evidence.add(
      Trust::kInvalid,
      "incomplete",
      fmt::format("{} of {} planned requests were made", num_measured, num_planned)
  );
}

void judge_stop(const Evidence& evidence) {
  const StopReason reason = evidence.record.stop_reason;
  if (reason == StopReason::kServerGone) {
    evidence.add(Trust::kInvalid, "stopped_early", "the server was gone before the end");
  } else if (reason == StopReason::kTooManyErrors) {
    evidence.add(Trust::kInvalid, "stopped_early", "stopped because of too many errors");
  } else if (reason == StopReason::kInterrupted) {
    evidence.add(Trust::kWarn, "stopped_early", "interrupted before the end");
  }
}

void judge_failures(const Evidence& evidence) {
  const int64_t num_failed = evidence.ours.num_failed.value_or(0);
  if (num_failed == 0) return;
  std::string kinds;
  for (const auto& [kind, count] : evidence.ours.failures) {
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, to_string(kind));
  }
  const double failed = share(num_failed, evidence.measured.size());
  evidence.add(
      failed > kShareOff ? Trust::kInvalid : Trust::kWarn,
      "failures",
      fmt::format(
          "{} of {} requests ({:.2f} %) failed: {}",
          num_failed,
          evidence.measured.size(),
          percent(failed),
          kinds
      )
  );
}

void judge_unfinished(const Evidence& evidence) {
  const int64_t num_unfinished = evidence.ours.num_unfinished.value_or(0);
  if (num_unfinished == 0) return;
  std::string beyond;
  for (const Metric metric : {Metric::kTtft, Metric::kE2e}) {
    for (const double rank : {50.0, 90.0, 99.0}) {
      const auto& figures = evidence.ours[metric];
      if (!figures || !std::isinf(figures->percentile(rank).value_or(0.0))) continue;
      beyond += fmt::format("; p{} of {} is longer than was seen", rank, to_string(metric));
      break;
    }
  }
  const double unfinished = share(num_unfinished, evidence.measured.size());
  evidence.add(
      unfinished > kShareUnfinished ? Trust::kInvalid : Trust::kWarn,
      "unfinished",
      fmt::format(
          "{} of {} requests ({:.2f} %) were under way at the end{}",
          num_unfinished,
          evidence.measured.size(),
          percent(unfinished),
          beyond
      )
  );
}

void judge_output_length(const Evidence& evidence) {
  int64_t num_planned = 0;
  int64_t num_made = 0;
  int64_t num_short = 0;
  for (const RequestRecord* request : evidence.completed) {
    num_planned += request->num_output_tokens_planned;
    num_made += request->num_output_tokens;
    const auto planned = static_cast<double>(request->num_output_tokens_planned);
    if (static_cast<double>(request->num_output_tokens) < (1.0 - kShareOff) * planned) ++num_short;
  }
  if (num_planned == 0) return;
  const double reached = static_cast<double>(num_made) / static_cast<double>(num_planned);
  const double is_short = share(num_short, evidence.completed.size());
  const bool is_off = std::abs(reached - 1.0) > kShareOff;
  if (num_short == 0 && !is_off) return;
  // Where a model may stop early, shorter is no fault, but rows of other lengths do not compare.
  const bool is_exact = evidence.record.plan.dataset.ignores_eos;
  if (!is_exact && !evidence.record.plan.dataset.output_len) return;
  const bool is_guess = std::any_of(
      evidence.completed.begin(),
      evidence.completed.end(),
      [](const RequestRecord* request) { return request->output_source == TokenSource::kChunks; }
  );
  const bool is_invalid = is_exact && !is_guess && (is_off || is_short > kShareOff);
  evidence.add(
      is_invalid ? Trust::kInvalid : Trust::kWarn,
      "output_length",
      fmt::format(
          "{} of {} planned output tokens ({:.1f} %); {} of {} requests ended early{}",
          num_made,
          num_planned,
          percent(reached),
          num_short,
          evidence.completed.size(),
          is_guess ? " (tokens are guessed from chunks)" : ""
      )
  );
}

void judge_prompt_length(const Evidence& evidence) {
  const std::vector<int64_t> overheads = prompt_overheads(evidence);
  if (overheads.empty()) return;
  double num_planned = 0.0;
  for (const RequestRecord* request : evidence.completed) {
    if (!has_comparable_prompt(*request)) continue;
    num_planned += static_cast<double>(request->num_prompt_tokens_planned);
  }
  const double overhead = median(overheads);
  double off = 0.0;
  for (const int64_t each : overheads) off += std::abs(static_cast<double>(each) - overhead);
  const auto num_requests = static_cast<double>(overheads.size());
  const double mean_planned = num_planned / num_requests;
  if (off / num_planned > kShareOff) {
    evidence.add(
        Trust::kInvalid,
        "prompt_length",
        fmt::format(
            "prompts differ from the plan by {:.1f} tokens on average ({:.1f} %), beyond a "
            "constant "
            "{:+.0f}; planned were {:.1f}",
            off / num_requests,
            percent(off / num_planned),
            overhead,
            mean_planned
        )
    );
    return;
  }
  // A chat's template adds the same to each, and is part of what the server has to do.
  const bool is_template = is_endpoint(evidence, "chat") && overhead >= 0.0;
  if (is_template || std::abs(overhead) <= kShareOff * mean_planned) return;
  evidence.add(
      Trust::kWarn,
      "prompt_length",
      fmt::format(
          "the server counts {:+.0f} tokens in each prompt ({:.1f} % of {:.1f})",
          overhead,
          percent(std::abs(overhead) / mean_planned),
          mean_planned
      )
  );
}

void judge_prefix_hits(const Evidence& evidence) {
  const DatasetPlan& dataset = evidence.record.plan.dataset;
  if ((!dataset.hit_len && !is_plain_random(dataset)) || evidence.completed.empty()) return;
  const std::optional<PrefixHits> hits = prefix_hits(evidence);
  const auto wanted = static_cast<double>(dataset.hit_len.value_or(0));
  if (!hits) {
    // Random prompts that hit nothing are what is expected anyway.
    if (wanted == 0.0) return;
    return evidence.add(
        Trust::kWarn,
        "prefix_hits",
        fmt::format(
            "{} tokens of each prompt were to come out of the server's prefix cache; it does not "
            "say how many did",
            wanted
        )
    );
  }
  const auto& [mean_prompt, found] = *hits;
  const double below = std::max(kHitTokensOff, kHitShareOff * wanted);
  // Where nothing is shared no block can be found; where something is, one more may be.
  const double above = wanted > 0.0
                           ? std::max(kHitTokensOff, kShareOff * mean_prompt)
                           : kCommonTokens + kShareOff * mean_prompt + template_tokens(evidence);
  if (found >= wanted - below && found <= wanted + above) return;
  evidence.add(
      Trust::kInvalid,
      "prefix_hits",
      fmt::format(
          "{:.1f} of {:.1f} tokens of a prompt came out of the server's prefix cache; {} were to",
          found,
          mean_prompt,
          wanted
      )
  );
}

// Held back until its end, by the server or by a proxy that collects: in one object, or all events
// together. REQUIRES: it has several tokens.
bool came_at_once(const RequestRecord& request) {
  if (!request.first_token || !request.last_token) return true;
  return *request.last_token - *request.first_token <= kEventTime * (request.num_output_tokens - 1);
}

void judge_streaming(const Evidence& evidence) {
  if (!evidence.record.plan.is_streamed) return;
  int64_t num_of_several = 0;
  int64_t num_at_once = 0;
  for (const RequestRecord* request : evidence.completed) {
    if (request->num_output_tokens < 2) continue;
    ++num_of_several;
    if (came_at_once(*request)) ++num_at_once;
  }
  if (2 * num_at_once <= num_of_several) return;
  evidence.add(
      Trust::kInvalid,
      "not_streamed",
      fmt::format(
          "{} of {} answers of several tokens came at once, not as a stream: there are no times of "
          "their tokens",
          num_at_once,
          num_of_several
      )
  );
}

void judge_token_source(const Evidence& evidence) {
  const auto num_guessed = std::count_if(
      evidence.completed.begin(),
      evidence.completed.end(),
      [](const RequestRecord* request) { return request->output_source == TokenSource::kChunks; }
  );
  if (num_guessed == 0) return;
  evidence.add(
      Trust::kWarn,
      "token_source",
      fmt::format(
          "the output tokens of {} of {} requests are guessed: one for each chunk",
          num_guessed,
          evidence.completed.size()
      )
  );
}

void judge_sample_size(const Evidence& evidence) {
  const auto num_completed = static_cast<int64_t>(evidence.completed.size());
  if (num_completed == 0) return;
  if (num_completed < kSamplesForP99) {
    evidence.add(
        Trust::kWarn,
        "few_samples",
        fmt::format("p99 of {} requests; it takes {}", num_completed, kSamplesForP99)
    );
  }
  const LoadPlan& load = evidence.record.plan.load;
  if (load.max_concurrency &&
      (load.kind == LoadKind::kConcurrency || load.kind == LoadKind::kBurst)) {
    if (num_completed / kWavesMin >= *load.max_concurrency) return;
    evidence.add(
        Trust::kWarn,
        "short_run",
        fmt::format(
            "{} requests at a concurrency of {} are {:.1f} waves; it takes {}",
            num_completed,
            *load.max_concurrency,
            static_cast<double>(num_completed) / static_cast<double>(*load.max_concurrency),
            kWavesMin
        )
    );
    return;
  }
  const auto& e2e = evidence.ours[Metric::kE2e];
  if (load.kind == LoadKind::kBurst || !e2e || !evidence.ours.duration_s) return;
  const double waves = *evidence.ours.duration_s * 1000.0 / e2e->mean;
  if (waves >= static_cast<double>(kWavesMin)) return;
  evidence.add(
      Trust::kWarn,
      "short_run",
      fmt::format(
          "{:.1f} s are {:.1f} times the mean latency; it takes {}",
          *evidence.ours.duration_s,
          waves,
          kWavesMin
      )
  );
}

Verdict judge(const PointRecord& record, const PointSummary& ours) {
  Verdict verdict;
  Evidence evidence{
      .record = record, .ours = ours, .measured = {}, .completed = {}, .verdict = verdict};
  for (const RequestRecord& request : record.requests) {
    if (request.phase != Phase::kMeasured) continue;
    evidence.measured.push_back(&request);
    if (request.outcome == Outcome::kCompleted) evidence.completed.push_back(&request);
  }
  for (const auto rule :
       {judge_completeness,
        judge_stop,
        judge_failures,
        judge_unfinished,
        judge_output_length,
        judge_prompt_length,
        judge_prefix_hits,
        judge_streaming,
        judge_token_source,
        judge_rate,
        judge_client_use,
        judge_schedule_lag,
        judge_client_queue,
        judge_client_floor,
        judge_stationarity,
        judge_leftovers,
        judge_sample_size}) {
    rule(evidence);
  }
  // The worst first; otherwise in the order above.
  std::stable_sort(
      verdict.findings.begin(),
      verdict.findings.end(),
      [](const Finding& a, const Finding& b) { return a.trust > b.trust; }
  );
  return verdict;
}

}  // namespace millrace::bench
