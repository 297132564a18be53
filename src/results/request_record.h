// What one request did, as the client saw it: times, tokens, how it ended. Every figure of a report
// is made of these and of nothing else. Plain values.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace millrace::bench {

// Since the point's clock started; warm-up comes before it and has negative times.
using Nanos = std::chrono::nanoseconds;

// One streamed event that has `choices` (or is a native /generate event).
struct Chunk {
  int64_t at_ns : 48;  // as Nanos
  // That it brought, as TokenSource counts: with kUsage 1 if it had output, which is its share of
  // the total. 0: a role alone, or in old records unknown.
  uint64_t num_tokens : 16;

  // What does not fit is cut to what does: 39 hours, 65535 tokens.
  static Chunk make(Nanos at, int64_t num_tokens) {
    constexpr int64_t kAtMax = (int64_t{1} << 47) - 1;
    const auto at_bits = static_cast<uint64_t>(std::clamp<int64_t>(at.count(), -kAtMax, kAtMax));
    const auto token_bits = static_cast<uint64_t>(std::clamp<int64_t>(num_tokens, 0, 65535));
    // GCC warns of any assignment to a signed bit-field; this is the layout of its own.
    return std::bit_cast<Chunk>((at_bits & 0xffff'ffff'ffffULL) | token_bits << 48);
  }
  Nanos at() const { return Nanos(at_ns); }
  friend bool operator==(const Chunk&, const Chunk&) = default;
};

enum class Outcome {
  kCompleted,
  kFailed,      // failure says how
  kUnfinished,  // under way when the point ended: censored, never dropped
};

enum class FailureKind {
  kConnect,      // refused, unreachable, no such host
  kTls,          // the handshake or the certificate
  kTimeout,      // the request's own time ran out
  kStatus,       // an HTTP status that is not 2xx
  kMalformed,    // no HTTP, no SSE, or no JSON where it must be
  kServerError,  // an error event within the stream
  kClosed,       // the connection ended before the answer did
  kEmpty,        // a whole answer without a token
  kClientLimit,  // no file descriptor or no port left here
};

// Where the number of output tokens comes from, best first.
enum class TokenSource {
  kUsageDeltas,  // usage in every chunk (continuous_usage_stats, or native meta_info)
  kTokenIds,     // the ids of each chunk
  kUsage,        // the total alone; chunks' shares are unknown
  kTokenizer,    // the client's tokenizer over the text
  kChunks,       // one chunk, one token: a guess
};

enum class Phase { kWarmup, kMeasured, kCooldown };

struct RequestRecord {
  int64_t index = 0;  // in the order of the plan
  Phase phase = Phase::kMeasured;
  int32_t slot = 0;  // closed loop: whose place of the concurrency it had
  int64_t session = 0;
  int32_t turn = 0;  // of its session

  Nanos scheduled{0};  // when the load's shape wanted it sent
  Nanos admitted{0};   // when the limit of concurrency let it go
  Nanos sent{0};       // its first byte was written
  // Of a stream. An answer that came whole, in one JSON object, has but its last token.
  std::optional<Nanos> first_chunk;   // the first event with choices, though it be empty
  std::optional<Nanos> first_text;    // the first with text, reasoning or a tool call in it
  std::optional<Nanos> first_token;   // the first that brought a token by `output_source`
  std::optional<Nanos> first_answer;  // the first text that is no reasoning
  std::optional<Nanos> last_token;
  std::optional<Nanos> last_chunk;  // the last event with choices
  Nanos ended{0};                   // the stream's last event, the error, or the end of the point

  int64_t num_prompt_tokens_planned = 0;
  int64_t num_output_tokens_planned = 0;
  std::optional<int64_t> num_prompt_tokens;  // by the server's usage
  std::optional<int64_t> num_cached_tokens;  // of those, found in the server's prefix cache
  int64_t num_output_tokens = 0;
  TokenSource output_source = TokenSource::kChunks;
  // kept unless the point says otherwise: [number of events with choices], ascending in time
  std::vector<Chunk> chunks;

  Outcome outcome = Outcome::kUnfinished;
  std::optional<FailureKind> failure;  // with kFailed
  std::string error;                   // with kFailed: one line
  int32_t http_status = 0;             // 0: none came
  std::string finish_reason;
  std::string text;  // only where texts are kept

  bool came_whole() const { return outcome == Outcome::kCompleted && !first_chunk; }
  friend bool operator==(const RequestRecord&, const RequestRecord&) = default;
};

}  // namespace millrace::bench
