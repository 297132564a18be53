#include "checkpoint/printable.h"

namespace millrace {

std::string printable(std::string_view name) {
  constexpr size_t kBytesMax = 120;
  std::string text(name.substr(0, kBytesMax));
  for (char& c : text) {
    if (c < 0x20 || c > 0x7E) c = '?';
  }
  if (name.size() > kBytesMax) text += "...";
  return text;
}

}  // namespace millrace
