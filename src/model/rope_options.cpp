#include "model/rope_options.h"

namespace millrace {

RopeOptions rope_options(const ModelConfig& config, int32_t num_positions) {
  RopeOptions options = {
      .head_dim = static_cast<size_t>(config.head_dim),
      .theta = config.rope_theta,
      .scaling = std::nullopt,
      .num_positions = static_cast<size_t>(num_positions),
  };
  if (config.rope_scaling) {
    options.scaling = RopeScaling{
        .factor = config.rope_scaling->factor,
        .low_freq_factor = config.rope_scaling->low_freq_factor,
        .high_freq_factor = config.rope_scaling->high_freq_factor,
        .original_max_position =
            static_cast<double>(config.rope_scaling->original_max_position_embeddings),
    };
  }
  return options;
}

}  // namespace millrace
