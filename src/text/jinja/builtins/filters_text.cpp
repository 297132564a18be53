// The filters that make text of text.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/builtins/bind.h"
#include "text/jinja/builtins/natives.h"
#include "text/jinja/builtins/text_transform.h"
#include "text/jinja/convert.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace millrace::jinja {
namespace {

template <LetterCase letter_case>
Value change_case_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "filter", {});
  const Text text = to_text(run, self);
  return run.failed() ? Value() : run.str(change_case(run, text, letter_case));
}

Value title_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "title", {});
  const Text text = to_text(run, self);
  if (run.failed() || !run.work(text.size() * 4)) return {};
  const Text lower = change_case(run, text, LetterCase::kLower);
  TextBuilder out = run.builder();
  bool is_word_start = true;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    const std::u32string converted = is_word_start ? to_upper(c.value) : to_lower(c.value);
    for (const char32_t part : converted) out.append_code_point(part, text.is_input_at(i));
    is_word_start = is_space(c.value) ||
                    std::u32string_view(U"-({[<").find(c.value) != std::u32string_view::npos;
    i = c.end;
  }
  return run.str(out);
}

Value trim_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "trim", {"chars"});
  const Text text = to_text(run, self);
  const Text* chars = bound.some(0) == nullptr ? nullptr : bound.string(0);
  if (run.failed()) return {};
  if (chars != nullptr && chars->size() > 64) run.work(text.size() * (chars->size() / 64));
  return run.failed() ? Value() : run.str(strip(text, chars, {}));
}

Value replace_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "replace", {"old", "new", "count"}, 2);
  if (run.failed()) return {};
  const int64_t count = bound.some(2) == nullptr ? -1 : bound.integer(2, -1);
  const Text text = to_text(run, self);
  const Text from = bound.text(0, "");
  const Text to = bound.text(1, "");
  return run.failed() ? Value() : replace(run, text, from, to, count);
}

Value center_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "center", {"width"});
  const int64_t width = bound.integer(0, 80);
  const Text text = to_text(run, self);
  if (run.failed()) return {};
  const int64_t missing =
      std::max<int64_t>(width - static_cast<int64_t>(text.num_code_points()), 0);
  const int64_t left = missing / 2 + (missing & width & 1);
  TextBuilder out = run.builder();
  out.append_repeated(Text(" "), static_cast<size_t>(left));
  out.append(text);
  out.append_repeated(Text(" "), static_cast<size_t>(missing - left));
  return run.str(out);
}

Value indent_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "indent", {"width", "first", "blank"});
  if (self.text() == nullptr) return binary(run, BinaryOperator::kAdd, self, run.str("\n"));
  const bool indents_first = bound.truth(1, false);
  const bool indents_blank = bound.truth(2, false);
  TextBuilder indentation = run.builder();
  if (bound.at(0) != nullptr && bound.at(0)->text() != nullptr) {
    indentation.append(*bound.at(0)->text());
  } else {
    const auto width = static_cast<size_t>(std::max<int64_t>(bound.integer(0, 4), 0));
    indentation.append_repeated(Text(" "), width);
  }
  if (indentation.overflowed()) return run.fail_limit("a string of the chat template is too large");
  const Text prefix = indentation.take();
  TextBuilder with_newline = run.builder();
  with_newline.append(*self.text());
  with_newline.append("\n");
  if (run.failed() || !run.work(self.text()->size())) return {};
  const std::vector<Text> lines = split_lines(run, with_newline.take(), false);
  TextBuilder out = run.builder();
  for (size_t i = 0; i < lines.size() && !out.overflowed(); ++i) {
    if (i > 0) out.append("\n");
    const bool is_indented = i == 0 ? indents_first : indents_blank || !lines[i].empty();
    if (is_indented) out.append(prefix);
    out.append(lines[i]);
  }
  return run.str(out);
}

Value truncate_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "truncate", {"length", "killwords", "end", "leeway"});
  const int64_t length = bound.integer(0, 255);
  const bool kills_words = bound.truth(1, false);
  const Text end = bound.text(2, "...");
  const int64_t leeway = bound.some(3) == nullptr ? 5 : bound.integer(3, 5);
  if (run.failed()) return {};
  const auto end_length = static_cast<int64_t>(end.num_code_points());
  if (length < end_length) {
    return run.fail(fmt::format("expected length >= {}, got {}", end_length, length));
  }
  if (leeway < 0) return run.fail(fmt::format("expected leeway >= 0, got {}", leeway));
  if (self.text() == nullptr) {
    return run.fail(fmt::format("object of type '{}' has no len()", type_name(self)));
  }
  const Text& text = *self.text();
  const auto size = static_cast<int64_t>(text.num_code_points());
  if (size - leeway <= length) return self;
  size_t kept = text.byte_of(static_cast<size_t>(length - end_length));
  if (!kills_words) kept = std::min(kept, text.view().substr(0, kept).rfind(' '));
  TextBuilder out = run.builder();
  out.append(text, 0, kept);
  out.append(end);
  return run.str(out);
}

Value wordcount_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "wordcount", {});
  const Text text = to_text(run, self);
  if (run.failed() || !run.work(text.size())) return {};
  int64_t count = 0;
  bool is_in_word = false;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    if (is_word(c.value) && !is_in_word) ++count;
    is_in_word = is_word(c.value);
    i = c.end;
  }
  return count;
}

std::string_view html_escape(char32_t c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '\'':
      return "&#39;";
    case '"':
      return "&#34;";
    default:
      return {};
  }
}

// Gives a plain string: nothing here is escaped on its own, so nothing needs to be called safe.
Value escape_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "escape", {});
  const Text text = to_text(run, self);
  TextBuilder out = run.builder();
  for (size_t i = 0; i < text.size() && !out.overflowed();) {
    const CodePoint c = code_point_at(text, i);
    const std::string_view escaped = html_escape(c.value);
    if (escaped.empty()) {
      out.append(text, c.begin, c.end);
    } else {
      out.append(escaped, text.is_input_at(i));
    }
    i = c.end;
  }
  return run.str(out);
}

// Without what stands between `open` and `close`, as often as there are both.
Text without_spans(const Text& text, std::string_view open, std::string_view close) {
  TextBuilder out(text.size());
  size_t at = 0;
  while (true) {
    const size_t begin = text.view().find(open, at);
    const size_t end = begin == std::string_view::npos ? begin : text.view().find(close, begin);
    if (end == std::string_view::npos) break;
    out.append(text, at, begin);
    at = end + close.size();
  }
  out.append(text, at, text.size());
  return out.take();
}

// The text of the five entities that escaping makes; others stay as they are.
Text unescape(const Text& text) {
  static constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&amp;", "&"},
      {"&lt;", "<"},
      {"&gt;", ">"},
      {"&#39;", "'"},
      {"&#34;", "\""},
      {"&quot;", "\""}};
  TextBuilder out(text.size());
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    std::string_view replacement;
    for (const auto& [entity, character] : kEntities) {
      if (text.view().substr(i, entity.size()) != entity) continue;
      replacement = character;
      end = i + entity.size();
    }
    if (replacement.empty()) {
      out.append(text, i, end);
    } else {
      out.append(replacement, text.is_input_at(i));
    }
    i = end;
  }
  return out.take();
}

Value striptags_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "striptags", {});
  const Text text = to_text(run, self);
  if (run.failed() || !run.work(text.size() * 4)) return {};
  const Text bare = without_spans(without_spans(text, "<!--", "-->"), "<", ">");
  TextBuilder joined = run.builder();
  for (const Text& word : split_words(run, bare, -1)) {
    if (joined.size() > 0) joined.append(" ");
    joined.append(word);
  }
  return run.failed() ? Value() : run.str(unescape(joined.take()));
}

void append_quoted(const Text& text, bool is_query, TextBuilder& out) {
  for (size_t i = 0; i < text.size() && !out.overflowed(); ++i) {
    const char c = text.view()[i];
    const bool is_letter =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool is_safe =
        is_letter || c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !is_query);
    if (is_safe) {
      out.append(text, i, i + 1);
    } else if (c == ' ' && is_query) {
      out.append("+", text.is_input_at(i));
    } else {
      out.append(fmt::format("%{:02X}", static_cast<unsigned char>(c)), text.is_input_at(i));
    }
  }
}

Value urlencode_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "urlencode", {});
  TextBuilder out = run.builder();
  if (self.text() != nullptr || !is_iterable(self)) {
    append_quoted(to_text(run, self), false, out);
    return run.failed() ? Value() : run.str(out);
  }
  std::vector<Value> pairs;
  if (const Dict* dict = self.dict()) {
    for (const auto& [key, value] : dict->entries) {
      pairs.push_back(run.sequence({key, value}, SequenceKind::kTuple));
    }
  } else {
    pairs = iterate(run, self);
  }
  for (const Value& pair : pairs) {
    const std::vector<Value> parts = iterate(run, pair);
    if (!run.failed() && parts.size() != 2) run.fail("expected pairs of a key and a value");
    if (run.failed()) return {};
    if (out.size() > 0) out.append("&");
    append_quoted(to_text(run, parts[0]), true, out);
    out.append("=");
    append_quoted(to_text(run, parts[1]), true, out);
  }
  return run.str(out);
}

Value format_filter(Run& run, const Value& self, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.keywords.empty()) {
    return run.fail("can't handle positional and keyword arguments at the same time");
  }
  const Text format = to_text(run, self);
  if (arguments.keywords.empty()) {
    return format_percent(run, format, run.sequence(arguments.positional, SequenceKind::kTuple));
  }
  Dict named;
  for (const auto& [name, value] : arguments.keywords) named.set(run.str(name), value);
  return format_percent(run, format, run.dict(std::move(named)));
}

Value string_filter(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "string", {});
  if (self.text() != nullptr || run.failed()) return self;
  Text text = to_text(run, self);
  return run.failed() ? Value() : run.str(std::move(text));
}

}  // namespace

const std::vector<NamedNative>& text_filters() {
  static const std::vector<NamedNative> kTable = {
      {"capitalize", change_case_filter<LetterCase::kCapitalize>},
      {"center", center_filter},
      {"e", escape_filter},
      {"escape", escape_filter},
      {"forceescape", escape_filter},
      {"format", format_filter},
      {"indent", indent_filter},
      {"lower", change_case_filter<LetterCase::kLower>},
      {"replace", replace_filter},
      {"safe", string_filter},
      {"string", string_filter},
      {"striptags", striptags_filter},
      {"title", title_filter},
      {"trim", trim_filter},
      {"truncate", truncate_filter},
      {"upper", change_case_filter<LetterCase::kUpper>},
      {"urlencode", urlencode_filter},
      {"wordcount", wordcount_filter},
  };
  return kTable;
}

}  // namespace millrace::jinja
