// Whether a row of a report can be trusted, and why not. Plain values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millrace::bench {

enum class Trust { kOk, kWarn, kInvalid };

// One reason. `code` is stable, for programs; `message` is one line with the figures in it.
struct Finding {
  Trust trust = Trust::kWarn;
  std::string_view
      code;  // of static storage: "output_length", "prefix_hits", "client_saturated"...
  std::string message;

  friend bool operator==(const Finding&, const Finding&) = default;
};

struct Verdict {
  std::vector<Finding> findings;  // empty: ok

  // The worst of them.
  Trust trust() const;
};

std::string_view to_string(Trust trust);  // "ok", "warn", "invalid"

}  // namespace millrace::bench
