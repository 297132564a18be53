// A configuration's rotary embeddings as the table of cosines and sines wants them.
#pragma once

#include <cstdint>

#include "kernels/rope.h"
#include "model/config.h"

namespace millrace {

RopeOptions rope_options(const ModelConfig& config, int32_t num_positions);

}  // namespace millrace
