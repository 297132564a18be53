// Each step refines the ranges; only ByteLevel and Metaspace rewrite the text under them.
#include "text/pretokenizer.h"

#include <algorithm>
#include <utility>

#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace millrace {
namespace {

// A stretch between two cuts of a pattern.
struct Stretch {
  ByteRange range;
  bool is_match = false;
};

// Covers `range` with the matches and what lies between them.
std::vector<Stretch> cover(ByteRange range, const std::vector<ByteRange>& matches, bool invert) {
  std::vector<Stretch> stretches;
  size_t pos = range.begin;
  for (const ByteRange match : matches) {
    if (match.begin > pos) stretches.push_back({{pos, match.begin}, invert});
    stretches.push_back({match, !invert});
    pos = match.end;
  }
  if (pos < range.end) stretches.push_back({{pos, range.end}, invert});
  return stretches;
}

void append_word(ByteRange range, std::vector<ByteRange>& words) {
  if (range.begin < range.end) words.push_back(range);
}

void merge_with_previous(const std::vector<Stretch>& stretches, std::vector<ByteRange>& words) {
  ByteRange word = stretches.empty() ? ByteRange{} : stretches.front().range;
  for (size_t i = 1; i < stretches.size(); ++i) {
    if (stretches[i].is_match && !stretches[i - 1].is_match) {
      word.end = stretches[i].range.end;
    } else {
      append_word(word, words);
      word = stretches[i].range;
    }
  }
  append_word(word, words);
}

void merge_with_next(const std::vector<Stretch>& stretches, std::vector<ByteRange>& words) {
  ByteRange word = stretches.empty() ? ByteRange{} : stretches.front().range;
  for (size_t i = 1; i < stretches.size(); ++i) {
    if (stretches[i - 1].is_match && !stretches[i].is_match) {
      word.end = stretches[i].range.end;
    } else {
      append_word(word, words);
      word = stretches[i].range;
    }
  }
  append_word(word, words);
}

void merge_contiguous(const std::vector<Stretch>& stretches, std::vector<ByteRange>& words) {
  ByteRange word = stretches.empty() ? ByteRange{} : stretches.front().range;
  for (size_t i = 1; i < stretches.size(); ++i) {
    if (stretches[i].is_match == stretches[i - 1].is_match) {
      word.end = stretches[i].range.end;
    } else {
      append_word(word, words);
      word = stretches[i].range;
    }
  }
  append_word(word, words);
}

void append_stretches(
    const std::vector<Stretch>& stretches, SplitBehavior behavior, std::vector<ByteRange>& words
) {
  switch (behavior) {
    case SplitBehavior::kIsolated:
      for (const Stretch& stretch : stretches) append_word(stretch.range, words);
      return;
    case SplitBehavior::kRemoved:
      for (const Stretch& stretch : stretches) {
        if (!stretch.is_match) append_word(stretch.range, words);
      }
      return;
    case SplitBehavior::kMergedWithPrevious:
      return merge_with_previous(stretches, words);
    case SplitBehavior::kMergedWithNext:
      return merge_with_next(stretches, words);
    case SplitBehavior::kContiguous:
      return merge_contiguous(stretches, words);
  }
}

// Replaces every range by what `split_range(range, ranges)` appends for it.
template <class SplitRange>
void refine(Words& words, SplitRange split_range) {
  const std::vector<ByteRange> sources = std::exchange(words.ranges, {});
  words.ranges.reserve(sources.size() + words.text.size() / 4);
  for (const ByteRange source : sources) split_range(source, words.ranges);
  const bool lost_front = !sources.empty() && (words.ranges.empty() ||
                                               words.ranges.front().begin != sources.front().begin);
  if (lost_front) words.is_front = false;
}

void apply_step(const SplitStep& step, Words& words) {
  const KnownPattern* known = step.pattern.known();
  if (known != nullptr && step.behavior == SplitBehavior::kIsolated) {
    return refine(words, [&](ByteRange source, std::vector<ByteRange>& ranges) {
      split_by_known_pattern(*known, words.text, source, ranges);
    });
  }
  refine(words, [&](ByteRange source, std::vector<ByteRange>& ranges) {
    std::vector<ByteRange> matches;
    step.pattern.find_all(words.text, source, matches);
    append_stretches(cover(source, matches, step.invert), step.behavior, ranges);
  });
}

void apply_step(const ClassSplitStep& step, Words& words) {
  const CodePointClasses& classes = CodePointClasses::table();
  refine(words, [&](ByteRange source, std::vector<ByteRange>& ranges) {
    std::vector<ByteRange> matches;
    for (size_t pos = source.begin; pos < source.end;) {
      const CodePoint here = decode_code_point(words.text, pos);
      const size_t next = pos + here.num_bytes;
      if ((classes.of(here.value) & step.classes) != 0) matches.push_back({pos, next});
      pos = next;
    }
    if (matches.empty()) {
      ranges.push_back(source);
    } else {
      append_stretches(cover(source, matches, false), step.behavior, ranges);
    }
  });
}

// Runs of word characters, and runs of what is neither word nor space.
void apply_step(const WhitespaceStep&, Words& words) {
  const CodePointClasses& classes = CodePointClasses::table();
  const auto kind_at = [&](size_t pos) {
    const uint8_t bits = classes.of(decode_code_point(words.text, pos).value);
    if ((bits & CodePointClass::kWord) != 0) return CodePointClass::kWord;
    return static_cast<uint8_t>(bits & CodePointClass::kSpace);
  };
  refine(words, [&](ByteRange source, std::vector<ByteRange>& ranges) {
    for (size_t pos = source.begin; pos < source.end;) {
      const size_t begin = pos;
      const uint8_t kind = kind_at(begin);
      while (pos < source.end && kind_at(pos) == kind) {
        pos += decode_code_point(words.text, pos).num_bytes;
      }
      if (kind != CodePointClass::kSpace) ranges.push_back({begin, pos});
    }
  });
}

// Writes the words anew through `write(word, is_front, out)` and counts their ranges again.
template <class Write>
void rewrite(Words& words, Write write) {
  std::string text;
  text.reserve(words.text.size() + words.text.size() / 4);
  bool is_front = words.is_front;
  for (ByteRange& range : words.ranges) {
    const size_t begin = text.size();
    write(words.text.substr(range.begin, range.end - range.begin), is_front, text);
    range = {begin, text.size()};
    is_front = false;
  }
  words.storage = std::move(text);
  words.text = words.storage;
}

bool lacks_prefix_space(const Words& words) {
  return std::any_of(words.ranges.begin(), words.ranges.end(), [&](ByteRange range) {
    return words.text[range.begin] != ' ';
  });
}

// Everything of ByteLevel but the writing in the byte alphabet.
void split_byte_level(const ByteLevelStep& step, Words& words) {
  if (step.add_prefix_space && lacks_prefix_space(words)) {
    rewrite(words, [](std::string_view word, bool, std::string& out) {
      if (!word.starts_with(' ')) out.push_back(' ');
      out.append(word);
    });
  }
  if (step.use_regex) apply_step(SplitStep{.pattern = TextPattern(KnownPattern::kGpt2)}, words);
}

void apply_step(const ByteLevelStep& step, Words& words) {
  split_byte_level(step, words);
  rewrite(words, [](std::string_view word, bool, std::string& out) {
    append_byte_characters(word, out);
  });
}

void write_metaspace(
    const MetaspaceStep& step, std::string_view word, bool is_front, std::string& out
) {
  const bool wants_prefix =
      step.prepend_scheme == MetaspaceStep::PrependScheme::kAlways ||
      (step.prepend_scheme == MetaspaceStep::PrependScheme::kFirst && is_front);
  const bool has_prefix = word.starts_with(' ') || word.starts_with(step.replacement);
  if (wants_prefix && !has_prefix) out.append(step.replacement);
  for (const char c : word) {
    if (c == ' ') {
      out.append(step.replacement);
    } else {
      out.push_back(c);
    }
  }
}

void apply_step(const MetaspaceStep& step, Words& words) {
  rewrite(words, [&](std::string_view word, bool is_front, std::string& out) {
    write_metaspace(step, word, is_front, out);
  });
  if (!step.split) return;
  refine(words, [&](ByteRange source, std::vector<ByteRange>& ranges) {
    std::vector<Stretch> stretches;
    const std::string_view word = words.text.substr(source.begin, source.end - source.begin);
    std::vector<ByteRange> matches;
    for (size_t pos = word.find(step.replacement); pos != std::string_view::npos;
         pos = word.find(step.replacement, pos + step.replacement.size())) {
      matches.push_back({source.begin + pos, source.begin + pos + step.replacement.size()});
    }
    append_stretches(cover(source, matches, false), SplitBehavior::kMergedWithNext, ranges);
  });
}

}  // namespace

PreTokenizer::PreTokenizer(std::vector<PreTokenizerStep> steps)
    : steps_(std::move(steps)),
      leaves_bytes_(!steps_.empty() && std::holds_alternative<ByteLevelStep>(steps_.back())) {}

void PreTokenizer::split(std::string_view text, bool is_front, Words& words) const {
  words.text = text;
  words.ranges.assign(1, {0, text.size()});
  words.is_front = is_front;
  const size_t num_full_steps = steps_.size() - (leaves_bytes_ ? 1 : 0);
  for (size_t i = 0; i < num_full_steps; ++i) {
    std::visit([&](const auto& step) { apply_step(step, words); }, steps_[i]);
  }
  if (leaves_bytes_) split_byte_level(std::get<ByteLevelStep>(steps_.back()), words);
}

}  // namespace millrace
