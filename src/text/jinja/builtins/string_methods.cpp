// The methods of str.
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

Value list_of(Run& run, std::vector<Text> texts) {
  std::vector<Value> items;
  for (Text& text : texts) {
    if (run.failed()) return {};
    items.push_back(run.str(std::move(text)));
  }
  return run.sequence(std::move(items));
}

template <LetterCase letter_case>
Value change_case_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "str method", {});
  return run.failed() ? Value() : run.str(change_case(run, *self.text(), letter_case));
}

template <bool left, bool right>
Value strip_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "strip", {"chars"});
  const Text* chars = bound.some(0) == nullptr ? nullptr : bound.string(0);
  if (run.failed()) return {};
  const size_t num_chars = chars == nullptr ? 0 : chars->size();
  if (num_chars > 64) run.work(self.text()->size() * (num_chars / 64));
  if (run.failed()) return {};
  return run.str(strip(*self.text(), chars, {.left = left, .right = right}));
}

// Where the separator stands, from the left or the right, at most `splits_max` times.
std::vector<size_t> separators(
    Run& run, const Text& text, const Text& separator, int64_t splits_max
) {
  std::vector<size_t> found;
  size_t at = 0;
  while ((splits_max < 0 || static_cast<int64_t>(found.size()) < splits_max) && run.step()) {
    at = find_text(run, text.view(), separator.view(), at);
    if (at == std::string_view::npos) break;
    found.push_back(at);
    at += separator.size();
  }
  return found;
}

std::vector<size_t> separators_from_right(
    Run& run, const Text& text, const Text& separator, int64_t splits_max
) {
  std::vector<size_t> found;
  const std::string backwards(text.view().rbegin(), text.view().rend());
  const std::string wanted(separator.view().rbegin(), separator.view().rend());
  size_t at = 0;
  while ((splits_max < 0 || static_cast<int64_t>(found.size()) < splits_max) && run.step()) {
    at = find_text(run, backwards, wanted, at);
    if (at == std::string_view::npos) break;
    at += wanted.size();
    found.push_back(text.size() - at);
  }
  std::reverse(found.begin(), found.end());
  return found;
}

template <bool is_from_right>
Value split_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, is_from_right ? "rsplit" : "split", {"sep", "maxsplit"});
  const int64_t splits_max = bound.integer(1, -1);
  const Text& text = *self.text();
  if (run.failed() || !run.work(2 * text.size())) return {};
  if (bound.some(0) == nullptr) {
    return list_of(
        run,
        is_from_right ? split_words_from_right(run, text, splits_max)
                      : split_words(run, text, splits_max)
    );
  }
  const Text* separator = bound.string(0);
  if (run.failed()) return {};
  if (separator->empty()) return run.fail("empty separator");
  const std::vector<size_t> cuts = is_from_right
                                       ? separators_from_right(run, text, *separator, splits_max)
                                       : separators(run, text, *separator, splits_max);
  std::vector<Value> parts;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    if (run.failed()) return {};
    parts.push_back(run.str(text.slice(begin, cut)));
    begin = cut + separator->size();
  }
  parts.push_back(run.str(text.slice(begin, text.size())));
  return run.sequence(std::move(parts));
}

Value splitlines_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "splitlines", {"keepends"});
  const bool keeps_ends = bound.truth(0, false);
  if (run.failed() || !run.work(self.text()->size())) return {};
  return list_of(run, split_lines(run, *self.text(), keeps_ends));
}

template <bool is_from_right>
Value partition_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, is_from_right ? "rpartition" : "partition", {"sep"}, 1);
  const Text* separator = bound.string(0);
  if (run.failed()) return {};
  if (separator->empty()) return run.fail("empty separator");
  const Text& text = *self.text();
  const size_t at = is_from_right ? rfind_text(run, text.view(), separator->view())
                                  : find_text(run, text.view(), separator->view());
  std::vector<Value> parts;
  if (at != std::string_view::npos) {
    const size_t end = at + separator->size();
    parts = {
        run.str(text.slice(0, at)),
        run.str(text.slice(at, end)),
        run.str(text.slice(end, text.size()))};
  } else if (is_from_right) {
    parts = {run.str(""), run.str(""), self};
  } else {
    parts = {self, run.str(""), run.str("")};
  }
  return run.sequence(std::move(parts), SequenceKind::kTuple);
}

// The bytes of self[start:stop] for the arguments at `index` and after it; nullopt when start lies
// behind the end, where not even the empty string is found.
std::optional<ByteRange> searched_range(
    Run& run, const Text& text, const Bound& bound, size_t index
) {
  const auto size = static_cast<int64_t>(text.num_code_points());
  const auto place = [&](size_t argument, int64_t otherwise) {
    if (bound.some(argument) == nullptr) return otherwise;
    const int64_t at = bound.integer(argument, otherwise);
    return at < 0 ? std::max<int64_t>(std::max(at, -size) + size, 0) : at;
  };
  const int64_t start = place(index, 0);
  const int64_t stop = std::min(place(index + 1, size), size);
  if (start > size || start > stop || !run.work(text.size() / 8)) return std::nullopt;
  return ByteRange{
      text.byte_of(static_cast<size_t>(start)), text.byte_of(static_cast<size_t>(stop))};
}

template <bool is_from_right, bool must_find>
Value find_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "find", {"sub", "start", "end"}, 1);
  const Text* wanted = bound.string(0);
  if (run.failed()) return {};
  const Text& text = *self.text();
  const std::optional<ByteRange> range = searched_range(run, text, bound, 1);
  size_t at = std::string_view::npos;
  if (range) {
    const std::string_view searched = text.view().substr(range->begin, range->end - range->begin);
    at = is_from_right ? rfind_text(run, searched, wanted->view())
                       : find_text(run, searched, wanted->view());
  }
  if (at == std::string_view::npos) {
    return must_find ? run.fail("substring not found") : Value(int64_t{-1});
  }
  return static_cast<int64_t>(text.code_point_of(range->begin + at));
}

Value count_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "count", {"sub", "start", "end"}, 1);
  const Text* wanted = bound.string(0);
  if (run.failed()) return {};
  const std::optional<ByteRange> range = searched_range(run, *self.text(), bound, 1);
  if (!range) return int64_t{0};
  const Text text = self.text()->slice(range->begin, range->end);
  if (wanted->empty()) return static_cast<int64_t>(text.num_code_points() + 1);
  int64_t count = 0;
  for (size_t at = find_text(run, text.view(), wanted->view());
       at != std::string_view::npos && run.step();
       at = find_text(run, text.view(), wanted->view(), at + wanted->size())) {
    ++count;
  }
  return count;
}

template <bool is_start>
Value affix_test_method(Run& run, const Value& self, const Arguments& arguments) {
  const std::string_view name = is_start ? "startswith" : "endswith";
  const Bound bound(run, arguments, name, {"prefix", "start", "end"}, 1);
  if (run.failed()) return {};
  const std::optional<ByteRange> range = searched_range(run, *self.text(), bound, 1);
  std::vector<Value> candidates = {*bound.at(0)};
  if (is_tuple(candidates[0])) candidates = candidates[0].sequence()->items;
  bool found = false;
  for (const Value& candidate : candidates) {
    if (candidate.text() == nullptr) {
      return run.fail(fmt::format(
          "{} first arg must be str or a tuple of str, not {}", name, type_name(candidate)
      ));
    }
    const std::string_view affix = candidate.text()->view();
    if (!range || !run.work(affix.size())) continue;
    const std::string_view searched =
        self.text()->view().substr(range->begin, range->end - range->begin);
    if (affix.size() > searched.size()) continue;
    const size_t at = is_start ? 0 : searched.size() - affix.size();
    found = found || searched.substr(at, affix.size()) == affix;
  }
  return found;
}

template <bool is_prefix>
Value remove_affix_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, is_prefix ? "removeprefix" : "removesuffix", {"affix"}, 1);
  const Text* affix = bound.string(0);
  if (run.failed()) return {};
  const Text& text = *self.text();
  if (affix->size() > text.size() || affix->empty()) return self;
  const size_t rest = text.size() - affix->size();
  if (text.view().substr(is_prefix ? 0 : rest, affix->size()) != affix->view()) return self;
  return run.str(is_prefix ? text.slice(affix->size(), text.size()) : text.slice(0, rest));
}

Value replace_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "replace", {"old", "new", "count"}, 2);
  const Text* from = bound.string(0);
  const Text* to = bound.string(1);
  const int64_t count = bound.integer(2, -1);
  return run.failed() ? Value() : replace(run, *self.text(), *from, *to, count);
}

Value join_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "join", {"iterable"}, 1);
  if (run.failed()) return {};
  TextBuilder out = run.builder();
  const std::vector<Value> items = iterate(run, *bound.at(0));
  for (size_t i = 0; i < items.size() && !run.failed() && !out.overflowed(); ++i) {
    if (items[i].text() == nullptr) {
      return run.fail(
          fmt::format("sequence item {}: expected str instance, {} found", i, type_name(items[i]))
      );
    }
    if (i > 0) out.append(*self.text());
    out.append(*items[i].text());
  }
  return run.str(out);
}

template <char align>
Value justify_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "justify", {"width", "fillchar"}, 1);
  const int64_t width = bound.integer(0, 0);
  const Text fill = bound.text(1, " ");
  if (run.failed()) return {};
  if (fill.num_code_points() != 1) {
    return run.fail("The fill character must be exactly one character long");
  }
  const auto size = static_cast<int64_t>(self.text()->num_code_points());
  const int64_t missing = std::max<int64_t>(width - size, 0);
  int64_t left = align == '<' ? 0 : missing;
  if (align == '^') left = missing / 2 + (missing & width & 1);
  TextBuilder out = run.builder();
  out.append_repeated(fill, static_cast<size_t>(left));
  out.append(*self.text());
  out.append_repeated(fill, static_cast<size_t>(missing - left));
  return run.str(out);
}

Value zfill_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "zfill", {"width"}, 1);
  const int64_t width = bound.integer(0, 0);
  if (run.failed()) return {};
  const Text& text = *self.text();
  const bool has_sign = !text.empty() && (text.view()[0] == '-' || text.view()[0] == '+');
  FormatSpec spec;
  spec.fill = '0';
  spec.align = '=';
  spec.width = static_cast<size_t>(std::max<int64_t>(width, 0));
  TextBuilder out = run.builder();
  append_padded(spec, text, has_sign ? 1 : 0, '=', out);
  return run.str(out);
}

Value expandtabs_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "expandtabs", {"tabsize"});
  const int64_t width = bound.integer(0, 8);
  if (run.failed() || !run.work(self.text()->size())) return {};
  TextBuilder out = run.builder();
  int64_t column = 0;
  for (size_t i = 0; i < self.text()->size() && !out.overflowed();) {
    const CodePoint c = code_point_at(*self.text(), i);
    if (c.value == '\t') {
      const int64_t num_spaces = width > 0 ? width - column % width : 0;
      out.append_repeated(Text(" "), static_cast<size_t>(num_spaces));
      column += num_spaces;
    } else {
      out.append(*self.text(), c.begin, c.end);
      column = c.value == '\n' || c.value == '\r' ? 0 : column + 1;
    }
    i = c.end;
  }
  return run.str(out);
}

Value format_method(Run& run, const Value& self, const Arguments& arguments) {
  return format_braces(run, *self.text(), arguments);
}

Value format_map_method(Run& run, const Value& self, const Arguments& arguments) {
  const Bound bound(run, arguments, "format_map", {"mapping"}, 1);
  if (run.failed()) return {};
  if (bound.at(0)->dict() == nullptr) return run.fail("format_map() needs a mapping");
  Arguments named;
  for (const auto& [key, value] : bound.at(0)->dict()->entries) {
    if (key.text() != nullptr) named.keywords.emplace_back(key.text()->view(), value);
  }
  return format_braces(run, *self.text(), named);
}

}  // namespace

const std::vector<NamedNative>& string_methods() {
  static const std::vector<NamedNative> kTable = {
      {"capitalize", change_case_method<LetterCase::kCapitalize>},
      {"casefold", change_case_method<LetterCase::kFold>},
      {"center", justify_method<'^'>},
      {"count", count_method},
      {"endswith", affix_test_method<false>},
      {"expandtabs", expandtabs_method},
      {"find", find_method<false, false>},
      {"format", format_method},
      {"format_map", format_map_method},
      {"index", find_method<false, true>},
      {"join", join_method},
      {"ljust", justify_method<'<'>},
      {"lower", change_case_method<LetterCase::kLower>},
      {"lstrip", strip_method<true, false>},
      {"partition", partition_method<false>},
      {"removeprefix", remove_affix_method<true>},
      {"removesuffix", remove_affix_method<false>},
      {"replace", replace_method},
      {"rfind", find_method<true, false>},
      {"rindex", find_method<true, true>},
      {"rjust", justify_method<'>'>},
      {"rpartition", partition_method<true>},
      {"rsplit", split_method<true>},
      {"rstrip", strip_method<false, true>},
      {"split", split_method<false>},
      {"splitlines", splitlines_method},
      {"startswith", affix_test_method<true>},
      {"strip", strip_method<true, true>},
      {"swapcase", change_case_method<LetterCase::kSwap>},
      {"title", change_case_method<LetterCase::kTitle>},
      {"upper", change_case_method<LetterCase::kUpper>},
      {"zfill", zfill_method},
  };
  return kTable;
}

}  // namespace millrace::jinja
