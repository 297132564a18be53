// Records from outside: whatever stands in a file, reading it and summing it up comes to an end,
// and what was read is written and read to the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "results/record_file.h"
#include "results/summarize.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace::bench;
  const auto records = parse_records({reinterpret_cast<const char*>(data), size});
  if (!records) return 0;
  for (const PointRecord& record : *records) {
    const std::string lines = to_jsonl(record);
    const auto again = parse_records(lines);
    if (!again || again->size() != 1 || to_jsonl(again->front()) != lines) std::abort();
    for (const Formulas formulas :
         {Formulas::kMillrace,
          Formulas::kVllm,
          Formulas::kSglang,
          Formulas::kGuidellm,
          Formulas::kGuidellm01,
          Formulas::kAiperf,
          Formulas::kGrid}) {
      summarize(record, {.formulas = formulas, .num_resamples = 20});
      summarize(record, {.formulas = formulas, .num_resamples = 20, .steady_only = true});
    }
  }
  return 0;
}
