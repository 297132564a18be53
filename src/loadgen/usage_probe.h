// Whether a server takes `stream_options.continuous_usage_stats`, which makes every token's time
// known; strict servers refuse a field that they do not know.
#pragma once

#include <stop_token>

#include "loadgen/target.h"

namespace millrace::bench {

// Asks for one token, where the target wants the field at all. True: the field was accepted, or the
// server said nothing that tells otherwise; false: it answered 400 or 422 with the field and not
// without it, or the target does not want it. Blocking.
bool takes_usage_deltas(const Target& target, const std::stop_token& stop);

}  // namespace millrace::bench
