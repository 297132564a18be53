// What each tool's arithmetic makes of one request (docs/guides/benchmarks.md has them side by
// side). Pure functions.
//
//               start     first token             end of E2E              TPOT
//   Millrace    sent      first_token             last_token              (last - first) / (n -
//   n_first) Vllm        admitted  first_chunk, even empty last_chunk              (e2e - ttft) /
//   (n - 1) Sglang      admitted  first_text              ended: with [DONE]      (e2e - ttft) / (n
//   - 1) Guidellm    admitted  first_text              ended                   (last - start) / n,
//   weighs n Guidellm01  admitted  first_text              ended                   has none Aiperf
//   admitted  first_text              last chunk with content has none: calls it ITL Grid admitted
//   first_text              ended                   has none
//
// Other tools start their clocks where their limit of concurrency lets a request go, before its
// connection is there: `admitted`.
#pragma once

#include <optional>
#include <vector>

#include "results/point_summary.h"
#include "results/statistics.h"
#include "results/timeline.h"

namespace millrace::bench {

// One time of one request.
struct Measured {
  double ms = 0.0;
  bool is_censored = false;  // it was still under way: the true time is at least this
  double weight = 1.0;
};

// `weight` times a gap of so many milliseconds that ended at `at`.
struct Gap {
  double ms = 0.0;
  double weight = 1.0;
  Nanos at{0};
};

struct RequestFigures {
  TimeSpan span;               // by the tool's own clock
  std::optional<Nanos> first;  // its first token
  std::optional<Measured> ttft, ttft_scheduled, tpot, e2e, e2e_scheduled, queue_time;
  std::vector<Gap> itl, icl;       // in the order of time
  std::vector<TokenEvent> tokens;  // as the tool counts them over time; empty: it does not
  int64_t num_input_tokens = 0;
  int64_t num_output_tokens = 0;
};

// Of a completed request, or, with kMillrace, an unfinished one.
RequestFigures request_figures(
    Formulas formulas, const PointPlan& plan, const RequestRecord& request
);

// SGLang's first token and the published grid's: the first text, of an answer that came whole its
// end. none: no text came.
std::optional<Nanos> first_text_or_whole(const RequestRecord& request);

// How the samples of all requests become figures.
Quantiles quantiles_of(Formulas formulas);

// The chunks with content as far as a record can tell: from `first` to the last token, without
// those that brought nothing where it is known which did.
std::vector<Chunk> content_chunks(const RequestRecord& request, std::optional<Nanos> first);

// Each of `chunks` with its tokens: as counted, or, where only the total is known, in equal shares.
std::vector<TokenEvent> token_events(const RequestRecord& request, std::span<const Chunk> chunks);

}  // namespace millrace::bench
