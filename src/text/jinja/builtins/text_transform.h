// Operations on marked strings that both methods and filters need. They keep the marks.
#pragma once

#include <optional>
#include <vector>

#include "text/jinja/run.h"
#include "text/jinja/text.h"

namespace millrace::jinja {

struct StripSides {
  bool left = true;
  bool right = true;
};

// `chars` null: white space.
Text strip(const Text& text, const Text* chars, StripSides sides);

// `count_max` < 0: all.
Value replace(Run& run, const Text& text, const Text& from, const Text& to, int64_t count_max);

// The lines without their ends, as str.splitlines(), which knows more line ends than \n.
std::vector<Text> split_lines(Run& run, const Text& text, bool keeps_ends);
// The words between white space, with at most `splits_max` splits if that is not negative.
std::vector<Text> split_words(Run& run, const Text& text, int64_t splits_max);
std::vector<Text> split_words_from_right(Run& run, const Text& text, int64_t splits_max);

enum class LetterCase { kUpper, kLower, kSwap, kFold, kTitle, kCapitalize };
Text change_case(Run& run, const Text& text, LetterCase letter_case);

// One code point of a text.
struct CodePoint {
  char32_t value;
  size_t begin;
  size_t end;
};
// REQUIRES: begin < text.size().
CodePoint code_point_at(const Text& text, size_t begin);

}  // namespace millrace::jinja
