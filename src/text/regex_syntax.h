// A tokenizer's regular expression, written for Oniguruma, in the syntax of PCRE2. Callable from
// any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace {

// The pattern with which PCRE2 (UTF, UCP) finds what Oniguruma finds with `pattern`. Rewritten is
// what both accept and read differently: `\w`, `\s`, `\b`, scripts, POSIX sets, `\v`, `{,n}`,
// comments. kUnsupported: what would need more than that, with its name in the message. What is no
// regular expression at all passes, for PCRE2 to say so.
Result<std::string> to_pcre2_syntax(std::string_view pattern);

}  // namespace millrace
