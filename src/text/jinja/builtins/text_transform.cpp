#include "text/jinja/builtins/text_transform.h"

#include <algorithm>

#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace millrace::jinja {
namespace {

bool is_line_end(char32_t c) {
  return (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) || is_title(c);
}

// The sigma at the end of a word has a form of its own.
bool is_final_sigma(const Text& text, const CodePoint& sigma) {
  size_t before = sigma.begin;
  while (before > 0 && is_continuation(text.view()[before - 1])) --before;
  const bool follows_letter = sigma.begin > 0 && is_cased(code_point_at(text, before - 1).value);
  const bool precedes_letter =
      sigma.end < text.size() && is_cased(code_point_at(text, sigma.end).value);
  return follows_letter && !precedes_letter;
}

std::u32string lower(const Text& text, const CodePoint& c) {
  if (c.value == 0x3a3 && is_final_sigma(text, c)) return U"\u03c2";
  return to_lower(c.value);
}

std::u32string convert(const Text& text, const CodePoint& c, LetterCase to, bool is_word_start) {
  switch (to) {
    case LetterCase::kUpper:
      return to_upper(c.value);
    case LetterCase::kLower:
      return lower(text, c);
    case LetterCase::kSwap:
      return is_upper(c.value)   ? lower(text, c)
             : is_lower(c.value) ? to_upper(c.value)
                                 : std::u32string{c.value};
    case LetterCase::kFold:
      return c.value == 0xdf ? U"ss" : c.value == 0x3c2 ? U"\u03c3" : to_lower(c.value);
    case LetterCase::kTitle:
    case LetterCase::kCapitalize:
      break;
  }
  return is_word_start ? to_title(c.value) : lower(text, c);
}

}  // namespace

CodePoint code_point_at(const Text& text, size_t begin) {
  const size_t end = code_point_end(text.view(), begin);
  return {decode_utf8(text.view().substr(begin, end - begin)), begin, end};
}

Text strip(const Text& text, const Text* chars, StripSides sides) {
  std::u32string wanted;
  for (size_t i = 0; chars != nullptr && i < chars->size();) {
    const CodePoint c = code_point_at(*chars, i);
    wanted += c.value;
    i = c.end;
  }
  const auto is_stripped = [&](char32_t c) {
    return chars == nullptr ? is_space(c) : wanted.find(c) != std::u32string::npos;
  };
  size_t begin = 0;
  size_t end = text.size();
  while (sides.left && begin < end) {
    const CodePoint c = code_point_at(text, begin);
    if (!is_stripped(c.value)) break;
    begin = c.end;
  }
  while (sides.right && end > begin) {
    size_t last = end - 1;
    while (last > begin && is_continuation(text.view()[last])) --last;
    if (!is_stripped(code_point_at(text, last).value)) break;
    end = last;
  }
  return text.slice(begin, end);
}

Value replace(Run& run, const Text& text, const Text& from, const Text& to, int64_t count_max) {
  TextBuilder out = run.builder();
  int64_t count = 0;
  size_t copied = 0;
  size_t at = 0;
  while ((count_max < 0 || count < count_max) && !run.failed() && !out.overflowed()) {
    const size_t found = find_text(run, text.view(), from.view(), at);
    if (found == std::string_view::npos || !run.step()) break;
    out.append(text, copied, found);
    out.append(to);
    copied = found + from.size();
    ++count;
    if (!from.empty()) {
      at = copied;
    } else if (found < text.size()) {
      at = code_point_end(text.view(), found);  // between every two code points
    } else {
      break;
    }
  }
  if (!out.overflowed()) out.append(text, copied, text.size());
  return run.str(out);
}

std::vector<Text> split_lines(Run& run, const Text& text, bool keeps_ends) {
  std::vector<Text> lines;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    i = c.end;
    if (!is_line_end(c.value)) continue;
    if (c.value == '\r' && i < text.size() && text.view()[i] == '\n') ++i;
    if (!run.step()) return {};
    lines.push_back(text.slice(begin, keeps_ends ? i : c.begin));
    begin = i;
  }
  if (begin < text.size()) lines.push_back(text.slice(begin, text.size()));
  return lines;
}

std::vector<Text> split_words(Run& run, const Text& text, int64_t splits_max) {
  std::vector<Text> words;
  size_t at = 0;
  while (run.step()) {
    while (at < text.size() && is_space(code_point_at(text, at).value)) {
      at = code_point_at(text, at).end;
    }
    if (at == text.size()) break;
    if (splits_max >= 0 && static_cast<int64_t>(words.size()) >= splits_max) {
      words.push_back(text.slice(at, text.size()));
      break;
    }
    const size_t begin = at;
    while (at < text.size() && !is_space(code_point_at(text, at).value)) {
      at = code_point_at(text, at).end;
    }
    words.push_back(text.slice(begin, at));
  }
  return words;
}

std::vector<Text> split_words_from_right(Run& run, const Text& text, int64_t splits_max) {
  std::vector<ByteRange> spans;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (!is_space(c.value)) {
      const bool continues = !spans.empty() && spans.back().end == c.begin;
      if (continues) {
        spans.back().end = c.end;
      } else {
        spans.push_back({c.begin, c.end});
      }
    }
    at = c.end;
  }
  std::vector<Text> words;
  if (!run.step(spans.size())) return words;
  const size_t num_splits = splits_max < 0 ? spans.size() : static_cast<size_t>(splits_max);
  const size_t num_joined = spans.size() > num_splits ? spans.size() - num_splits : 0;
  // The words that are not split any more stay one, with what stands before them.
  if (num_joined > 0) words.push_back(text.slice(0, spans[num_joined - 1].end));
  for (size_t i = num_joined; i < spans.size(); ++i) {
    words.push_back(text.slice(spans[i].begin, spans[i].end));
  }
  return words;
}

Text change_case(Run& run, const Text& text, LetterCase letter_case) {
  TextBuilder out = run.builder();
  if (!run.work(text.size() * 4)) return {};
  bool is_word_start = true;
  for (size_t i = 0; i < text.size() && !out.overflowed();) {
    const CodePoint c = code_point_at(text, i);
    const bool is_input = text.is_input_at(i);
    for (const char32_t converted : convert(text, c, letter_case, is_word_start)) {
      out.append_code_point(converted, is_input);
    }
    is_word_start = letter_case == LetterCase::kTitle && !is_cased(c.value);
    i = c.end;
  }
  if (out.overflowed()) run.fail_limit("a string of the chat template is too large");
  return out.take();
}

}  // namespace millrace::jinja
