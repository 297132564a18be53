// The words that our files and reports have for the enumerations of a record.
#pragma once

#include <optional>
#include <string_view>

#include "results/point_record.h"

namespace millrace::bench {

std::string_view to_string(LoadKind kind);       // "concurrency", "constant", "gamma", ...
std::string_view to_string(StopReason reason);   // "all_done", "max_seconds", ...
std::string_view to_string(Outcome outcome);     // "completed", "failed", "unfinished"
std::string_view to_string(FailureKind kind);    // "connect", "tls", "timeout", ...
std::string_view to_string(TokenSource source);  // "usage_deltas", "token_ids", ...
std::string_view to_string(Phase phase);         // "warmup", "measured", "cooldown"

// The other way; none: no such word.
template <class Enum>
std::optional<Enum> parse_name(std::string_view name);

}  // namespace millrace::bench
