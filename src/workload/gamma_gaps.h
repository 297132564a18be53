// Draws from a gamma distribution with mean 1, from our own random numbers: the standard library's
// distributions differ from one implementation to the next.
#pragma once

#include <cstdint>

#include "base/rng.h"

namespace millrace::bench {

// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); shape 1 is the
// exponential distribution by inversion. Not thread-safe.
class GammaGaps {
 public:
  // REQUIRES: shape > 0. An infinite shape gives 1 each time.
  GammaGaps(double shape, uint64_t seed) : shape_(shape), rng_(seed) {}

  double next();

 private:
  double normal();
  double gamma(double shape);  // with scale 1; REQUIRES: shape >= 1

  double shape_;
  Rng rng_;
};

}  // namespace millrace::bench
