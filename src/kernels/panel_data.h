// The panels of a packed matrix as memory.
#pragma once

#include <cstddef>

namespace millrace {

struct PanelData {
  const void* data = nullptr;  // [num_panels][panel_bytes]
  size_t num_panels = 0;
  size_t panel_bytes = 0;
};

}  // namespace millrace
