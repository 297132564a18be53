#include "report/html/plotly_bundle.h"

#include <cstddef>

// Of the embedded file (millrace_embed_compressed() in cmake/MillraceTargets.cmake).
extern "C" {
extern const char millrace_plotly_begin[];
extern const char millrace_plotly_end[];
}

namespace millrace::bench {

std::string_view plotly_gzip() {
  return {millrace_plotly_begin, static_cast<size_t>(millrace_plotly_end - millrace_plotly_begin)};
}

}  // namespace millrace::bench
