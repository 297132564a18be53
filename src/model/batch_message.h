// A batch as bytes, for the processes that compute it together.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "model/forward_batch.h"

namespace millrace {

// Replaces what `message` holds. Never empty. REQUIRES: no draws and nothing pending.
void encode_batch(const ForwardBatch& batch, std::vector<std::byte>& message);

// REQUIRES: what encode_batch() made, of the same program.
ForwardBatch decode_batch(std::span<const std::byte> message);

}  // namespace millrace
