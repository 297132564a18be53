// A regular expression of a tokenizer file that has no hand-written matcher: PCRE2 in UTF and UCP
// mode, with limits on work and depth. Immutable; callable from any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/byte_range.h"

struct pcre2_real_code_8;

namespace millrace {

class Regex {
 public:
  // Compiles `pattern` as Oniguruma would read it: `^` and `$` match at lines. Refused by name:
  // what PCRE2 would read otherwise and text/regex_syntax.h does not rewrite. What stays different:
  // properties follow the Unicode version of PCRE2, which is older than Oniguruma's, and `(?i)`
  // compares character by character, so that "ss" is not found as a case of U+00DF, and properties
  // and POSIX sets stay what they are.
  static Result<Regex> compile(std::string_view pattern);

  // Non-overlapping matches from left to right. Empty matches count, except right after a match. A
  // search that exceeds its limits ends there, as if nothing further matched: a slow pattern costs
  // its own file's exactness, never the process. REQUIRES: `text` is valid UTF-8.
  std::vector<ByteRange> find_all(std::string_view text) const;

 private:
  struct CodeDeleter {
    void operator()(pcre2_real_code_8* code) const;
  };
  explicit Regex(pcre2_real_code_8* code) : code_(code) {}
  std::unique_ptr<pcre2_real_code_8, CodeDeleter> code_;
};

}  // namespace millrace
