// How many tokens a step computes where nobody says. A step is as long as its tokens, and everyone
// who runs waits for its end: so as few as keep the products with weights near their peak.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/isa.h"
#include "kernels/quantized/weight_matrix.h"

namespace millrace {

// For a processor: 128 tokens, from which on more are no faster on few cores
// (docs/benchmarks/cpu_changes.md, "On Zen 4"); 16 a thread on many, so that each has enough of a
// product to do; and 64 beside `max_num_seqs` tokens of sequences that are being answered. 256
// tokens at least where `gains_by_long_steps`.
int32_t default_step_tokens(size_t num_threads, int64_t max_num_seqs, bool gains_by_long_steps);

// Whether prompts are faster by 256 tokens than by 128: with AMX those of bfloat16 and int4 weights
// are, by a tenth, and by 512 little more; int8 is not (docs/benchmarks/cpu_changes.md,
// "With AMX").
bool gains_by_long_steps(Isa isa, const WeightFormat& weights);

// For a CUDA device: 2048, as vLLM's; not measured.
int32_t default_device_step_tokens(int64_t max_num_seqs);

// Of a single prompt: half a step, so that a short prompt need not wait for the end of a long one.
int32_t default_prompt_tokens(int32_t step_tokens);

}  // namespace millrace
