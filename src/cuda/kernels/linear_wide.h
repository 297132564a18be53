// linear() for many tokens, on a device that has wgmma: the same bits (linear.h) at several times
// the speed. Not in emulation, where linear.cu's kernel does all.
#pragma once

#include "cuda/stream.h"

namespace millrace::cuda {

struct LinearTask;

// Whether linear_wide() takes it.
bool is_for_linear_wide(const LinearTask& task);

// REQUIRES: is_for_linear_wide().
void linear_wide(StreamHandle stream, const LinearTask& task);

}  // namespace millrace::cuda
