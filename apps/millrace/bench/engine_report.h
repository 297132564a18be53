// What `millrace bench engine` prints: a row for each case, as a markdown table or as JSON lines.
#pragma once

#include <string>
#include <vector>

#include "bench/engine_speed.h"
#include "tensor/dtype.h"

namespace millrace::bench {

// What all rows have in common.
struct SpeedSubject {
  std::string model;  // as on the command line
  std::string quantization = "none";
  DType dtype = DType::kFloat32;  // of weights that are not quantized, and of the KV cache
  std::string device = "cpu";     // or a CUDA device's name
  std::string isa;                // "avx512"; none on a device
  std::string peak;               // what was measured as the peak: "vdpbf16ps zmm"
  size_t num_threads = 0;         // that compute; none on a device
};

// A table under one line of what was measured. Cases without a sample are left out.
std::string speed_markdown(const SpeedSubject& subject, const std::vector<SpeedResult>& results);

// One object a line: phase, batch_size, context_len, tokens_per_s, tokens_per_s_std, read_gb_per_s,
// peak_tflop_per_s, limit_share, quantization; then what else is known of the row. Of one run
// tokens_per_s_std is null.
std::string speed_json_lines(const SpeedSubject& subject, const std::vector<SpeedResult>& results);

}  // namespace millrace::bench
