// linear() and linear_quantized() for many tokens, on a device that has wgmma: the same bits
// (linear.h) at several times the speed. Not in emulation, where the kernels for few tokens do all.
#pragma once

#include "cuda/stream.h"

namespace millrace::cuda {

struct LinearTask;
struct QuantizedTask;
class Int8Codes;
class Int4Codes;

// Whether linear_wide() takes it.
bool is_for_linear_wide(const LinearTask& task);

// REQUIRES: is_for_linear_wide().
void linear_wide(StreamHandle stream, const LinearTask& task);

// The same of codes: Int8Codes or Int4Codes.
bool is_for_linear_wide_quantized(const QuantizedTask& task);

template <class Codes>
void linear_wide_quantized(StreamHandle stream, const QuantizedTask& task);

}  // namespace millrace::cuda
