// UTF-8 by Unicode's table 3-7, class lookup, and normalization over utf8proc.
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "text/unicode_tables.h"

namespace millrace {
namespace {

constexpr char32_t kCodePointEnd = 0x110000;

bool is_continuation(uint8_t byte) {
  return (byte & 0xC0) == 0x80;
}

// How a lead byte goes on: the number of bytes in all, and the range of the second byte.
struct LeadByte {
  size_t num_bytes = 0;  // 0: no sequence begins so
  uint8_t second_first = 0x80;
  uint8_t second_last = 0xBF;
};

LeadByte lead_byte(uint8_t lead) {
  if (lead < 0x80) return {.num_bytes = 1};
  if (lead < 0xC2) return {};
  if (lead < 0xE0) return {.num_bytes = 2};
  if (lead == 0xE0) return {.num_bytes = 3, .second_first = 0xA0};
  if (lead == 0xED) return {.num_bytes = 3, .second_last = 0x9F};
  if (lead < 0xF0) return {.num_bytes = 3};
  if (lead == 0xF0) return {.num_bytes = 4, .second_first = 0x90};
  if (lead < 0xF4) return {.num_bytes = 4};
  if (lead == 0xF4) return {.num_bytes = 4, .second_last = 0x8F};
  return {};
}

bool is_inert(char32_t code_point) {
  const auto ranges = unicode_tables::inert_ranges();
  const auto after = std::upper_bound(
      ranges.begin(),
      ranges.end(),
      code_point,
      [](char32_t value, const auto& range) { return value < range.first; }
  );
  return after != ranges.begin() && code_point <= std::prev(after)->last;
}

utf8proc_option_t options_of(NormalizationForm form) {
  constexpr int kCompose = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
  constexpr int kDecompose = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
  switch (form) {
    case NormalizationForm::kNfc:
      return static_cast<utf8proc_option_t>(kCompose);
    case NormalizationForm::kNfd:
      return static_cast<utf8proc_option_t>(kDecompose);
    case NormalizationForm::kNfkc:
      return static_cast<utf8proc_option_t>(kCompose | UTF8PROC_COMPAT);
    case NormalizationForm::kNfkd:
      return static_cast<utf8proc_option_t>(kDecompose | UTF8PROC_COMPAT);
  }
  CHECK(false, "a normalization form that does not exist");
}

int combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Unicode's canonical ordering. utf8proc_decompose() would do it too, but by insertion: a prompt
// of a megabyte of alternating marks would take minutes.
void order_marks(std::vector<utf8proc_int32_t>& code_points) {
  for (size_t i = 0; i < code_points.size(); ++i) {
    if (combining_class(code_points[i]) == 0) continue;
    const size_t begin = i;
    while (i < code_points.size() && combining_class(code_points[i]) != 0) ++i;
    std::stable_sort(
        code_points.begin() + static_cast<std::ptrdiff_t>(begin),
        code_points.begin() + static_cast<std::ptrdiff_t>(i),
        [](utf8proc_int32_t x, utf8proc_int32_t y) {
          return combining_class(x) < combining_class(y);
        }
    );
  }
}

// REQUIRES: valid UTF-8 without inert code points.
std::string normalize_run(std::string_view text, NormalizationForm form) {
  const utf8proc_option_t options = options_of(form);
  std::vector<utf8proc_int32_t> code_points;
  // The longest decomposition, that of U+FDFA, has 18 code points.
  std::array<utf8proc_int32_t, 32> decomposed;
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint here = decode_code_point(text, pos);
    int boundary_class = 0;
    const utf8proc_ssize_t size = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(here.value),
        decomposed.data(),
        decomposed.size(),
        options,
        &boundary_class
    );
    CHECK(size >= 0 && size <= std::ssize(decomposed), "utf8proc refused a code point");
    code_points.insert(code_points.end(), decomposed.begin(), decomposed.begin() + size);
    pos += here.num_bytes;
  }
  order_marks(code_points);
  const utf8proc_ssize_t num_code_points = utf8proc_normalize_utf32(
      code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()), options
  );
  CHECK(num_code_points >= 0, "utf8proc refused code points");
  std::string out;
  for (utf8proc_ssize_t i = 0; i < num_code_points; ++i) {
    append_utf8(static_cast<char32_t>(code_points[static_cast<size_t>(i)]), out);
  }
  return out;
}

// Cuts a text into what a form leaves alone and the runs around everything else.
class SpanFinder {
 public:
  SpanFinder(std::string_view text, NormalizationForm form)
      : text_(text), form_(form), classes_(CodePointClasses::table()) {}

  std::vector<NormalizedSpan> find() {
    size_t last_safe = 0;  // where the latest safe code point begins: a run needs its base
    size_t pos = 0;
    while (pos < text_.size()) {
      const CodePoint here = decode_code_point(text_, pos);
      if (is_safe(here.value)) {
        last_safe = pos;
        pos += here.num_bytes;
        if (here.value >= 0x80 && is_inert(here.value)) last_safe = pos;
        continue;
      }
      const size_t end = run_end(pos);
      std::string normalized = normalize_run(text_.substr(last_safe, end - last_safe), form_);
      if (normalized != text_.substr(last_safe, end - last_safe)) {
        spans_.push_back({{last_safe, end}, std::move(normalized)});
      }
      last_safe = pos = end;
    }
    return std::move(spans_);
  }

 private:
  // A boundary stands before it, and the form does not change it alone.
  bool is_safe(char32_t code_point) const {
    if (code_point < 0x80) return true;
    if (form_ == NormalizationForm::kNfc) {
      return (classes_.of(code_point) & CodePointClass::kNfcSafe) != 0;
    }
    return is_inert(code_point);
  }

  size_t run_end(size_t pos) const {
    while (pos < text_.size()) {
      const CodePoint here = decode_code_point(text_, pos);
      if (is_safe(here.value)) break;
      pos += here.num_bytes;
    }
    return pos;
  }

  std::string_view text_;
  NormalizationForm form_;
  const CodePointClasses& classes_;
  std::vector<NormalizedSpan> spans_;
};

}  // namespace

void append_utf8(char32_t code_point, std::string& out) {
  const auto tail = [&](int shift) {
    return static_cast<char>(0x80 | ((code_point >> shift) & 0x3F));
  };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code_point >> 6)));
    out.push_back(tail(0));
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (code_point >> 12)));
    out.push_back(tail(6));
    out.push_back(tail(0));
  } else {
    out.push_back(static_cast<char>(0xF0 | (code_point >> 18)));
    out.push_back(tail(12));
    out.push_back(tail(6));
    out.push_back(tail(0));
  }
}

Utf8Sequence next_utf8_sequence(std::string_view bytes) {
  using Kind = Utf8Sequence::Kind;
  const LeadByte lead = lead_byte(static_cast<uint8_t>(bytes[0]));
  if (lead.num_bytes == 0) return {Kind::kInvalid, 1};
  for (size_t i = 1; i < lead.num_bytes; ++i) {
    if (i == bytes.size()) return {Kind::kIncomplete, i};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const bool fits =
        i == 1 ? byte >= lead.second_first && byte <= lead.second_last : is_continuation(byte);
    if (!fits) return {Kind::kInvalid, i};
  }
  return {Kind::kComplete, lead.num_bytes};
}

size_t num_code_points(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char byte) {
    return !is_continuation(static_cast<uint8_t>(byte));
  }));
}

bool is_valid_utf8(std::string_view bytes) {
  size_t pos = 0;
  while (pos < bytes.size()) {
    if (static_cast<uint8_t>(bytes[pos]) < 0x80) {
      ++pos;
      continue;
    }
    const Utf8Sequence sequence = next_utf8_sequence(bytes.substr(pos));
    if (sequence.kind != Utf8Sequence::Kind::kComplete) return false;
    pos += sequence.num_bytes;
  }
  return true;
}

size_t append_utf8_lossy(std::string_view bytes, bool at_end, std::string& out) {
  size_t pos = 0;
  while (pos < bytes.size()) {
    const Utf8Sequence sequence = next_utf8_sequence(bytes.substr(pos));
    if (sequence.kind == Utf8Sequence::Kind::kComplete) {
      out.append(bytes.substr(pos, sequence.num_bytes));
    } else if (sequence.kind == Utf8Sequence::Kind::kIncomplete && !at_end) {
      return bytes.size() - pos;
    } else {
      out.append(kReplacementCharacter);
    }
    pos += sequence.num_bytes;
  }
  return 0;
}

const CodePointClasses& CodePointClasses::table() {
  static const CodePointClasses kTable;
  return kTable;
}

CodePointClasses::CodePointClasses() {
  const std::span<const uint32_t> runs = unicode_tables::class_runs();
  std::array<uint8_t, 256> entries{};
  size_t run = 0;
  for (char32_t code_point = 0; code_point < kCodePointEnd; ++code_point) {
    if (run + 1 < runs.size() && runs[run + 1] >> 8 == code_point) ++run;
    entries[code_point & 0xFF] = static_cast<uint8_t>(runs[run] & 0xFF);
    if ((code_point & 0xFF) == 0xFF) add_block(code_point >> 8, entries);
  }
  std::copy_n(blocks_[block_of_[0]].begin(), ascii_.size(), ascii_.begin());
}

void CodePointClasses::add_block(size_t block, const std::array<uint8_t, 256>& entries) {
  // Neighbours are alike (whole scripts of letters, whole empty planes), so looking back a little
  // shares nearly all that can be shared.
  constexpr size_t kLookBack = 8;
  for (size_t back = 1; back <= std::min(kLookBack, blocks_.size()); ++back) {
    const size_t candidate = blocks_.size() - back;
    if (blocks_[candidate] == entries) {
      block_of_[block] = static_cast<uint16_t>(candidate);
      return;
    }
  }
  block_of_[block] = static_cast<uint16_t>(blocks_.size());
  blocks_.push_back(entries);
}

std::vector<NormalizedSpan> normalize_spans(std::string_view text, NormalizationForm form) {
  const bool is_ascii =
      std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
  if (is_ascii) return {};
  return SpanFinder(text, form).find();
}

void append_lowercase(char32_t code_point, std::string& out) {
  const auto exceptions = unicode_tables::lowercase_exceptions();
  const auto found = std::lower_bound(
      exceptions.begin(),
      exceptions.end(),
      code_point,
      [](const auto& entry, char32_t value) { return entry.from < value; }
  );
  if (found == exceptions.end() || found->from != code_point) {
    const utf8proc_int32_t lower = utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point));
    append_utf8(static_cast<char32_t>(lower), out);
    return;
  }
  append_utf8(found->to_first, out);
  if (found->to_second != 0) append_utf8(found->to_second, out);
}

}  // namespace millrace
