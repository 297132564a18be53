// plotly.js as a part of the program, for pages that need nothing else.
// https://github.com/plotly/plotly.js, MIT licence; tools/fetch_packages.py names the version.
#pragma once

#include <string_view>

namespace millrace::bench {

// plotly.min.js, compressed by gzip. Immutable, of static storage.
std::string_view plotly_gzip();

}  // namespace millrace::bench
