// The text of a JSON string that was found in place.
#pragma once

#include <string>
#include <string_view>

namespace millrace::bench {

// Appends the text that the inside of a JSON string stands for, valid UTF-8 in any case.
// REQUIRES: `raw` is of a string that read_event() read.
void append_unescaped(std::string_view raw, std::string& out);

}  // namespace millrace::bench
