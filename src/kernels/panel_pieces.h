// How the threads of a product share the panels of its matrix.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/math.h"
#include "kernels/executor.h"

namespace millrace {

// Panels that are not parted: gate and up of one output, and what AMX multiplies at once.
inline constexpr size_t kPanelsTogether = 2;

struct PanelWork {
  size_t num_panels = 0;
  size_t panel_bytes = 0;
  size_t num_tokens = 0;
};

// function(thread, panel_begin, panel_end), of even panel_begin, over pieces of all panels.
template <class F>
void for_panels(const Executor& executor, const PanelWork& work, const F& function) {
  // Some microseconds of reading, of which a new piece costs half of one; where more tokens than
  // one tile's are multiplied, that takes longer than to read.
  constexpr size_t kPieceBytes = size_t{128} << 10;
  constexpr size_t kTokensWhileReading = 16;
  const size_t num_passes = div_ceil(work.num_tokens, kTokensWhileReading);
  const size_t piece_min = kPieceBytes / (kPanelsTogether * work.panel_bytes * num_passes);
  executor.pool.parallel_pieces(
      div_ceil(work.num_panels, kPanelsTogether),
      std::max<size_t>(piece_min, 1),
      [&](size_t thread, size_t begin, size_t end) {
        const size_t panel_end = std::min(end * kPanelsTogether, work.num_panels);
        function(thread, begin * kPanelsTogether, panel_end);
      }
  );
}

}  // namespace millrace
