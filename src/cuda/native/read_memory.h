// Reads device memory and does nothing with it: what a step that streams weights is measured
// against.
#pragma once

#include <cstddef>

#include "cuda/stream.h"

namespace millrace::cuda {

// Every byte once, by as many threads as the device holds. `sink`: 4 bytes on the device, which may
// be written. REQUIRES: `device` at a multiple of 16, num_bytes a multiple of 16.
void read_memory(StreamHandle stream, const void* device, size_t num_bytes, void* sink);

}  // namespace millrace::cuda
