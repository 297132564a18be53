// Any bytes into the reader of Prometheus's text: what it takes for a sample has a name, and a line
// is a sample, odd, or neither.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "loadgen/metrics_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using millrace::bench::MetricsText;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const MetricsText parsed = MetricsText::parse(text);
  const auto num_lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  CHECK(parsed.samples().size() + parsed.num_odd_lines() <= num_lines, "a line counts once");
  for (const auto& sample : parsed.samples()) CHECK(!sample.name.empty(), "samples have names");
  return 0;
}
