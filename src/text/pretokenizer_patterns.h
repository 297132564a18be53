// The split patterns of the published model families as hand-written matchers over code point
// classes: linear in the text, and some twenty times as fast as a regular expression engine.
// Pure functions; callable from any thread.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/byte_range.h"

namespace millrace {

// Every character of a text belongs to a match of each of these patterns.
enum class KnownPattern {
  kGpt2,    // GPT-2: also what the ByteLevel pre-tokenizer splits by
  kLlama3,  // as kQwen2, with up to three digits together
  kQwen2,   // Qwen 2, 2.5 and 3: any-case contractions, each digit alone
  kQwen35,  // Qwen 3.5: as kQwen2, with marks among the letters
};

// The text of the pattern as it stands in a tokenizer.json.
std::string_view pattern_text(KnownPattern pattern);

std::optional<KnownPattern> find_known_pattern(std::string_view pattern);

// Appends the pieces of text[range], which together cover it. Lookaheads see no further than the
// range. REQUIRES: `text` is valid UTF-8 and `range` begins and ends at code points.
void split_by_known_pattern(
    KnownPattern pattern, std::string_view text, ByteRange range, std::vector<ByteRange>& pieces
);

}  // namespace millrace
