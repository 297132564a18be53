// Names that a file made up, as they may stand in an error: one short line whatever they hold.
#pragma once

#include <string>
#include <string_view>

namespace millrace {

// At most 120 bytes of `name`; bytes outside printable ASCII become '?', a cut ends in "...".
std::string printable(std::string_view name);

}  // namespace millrace
