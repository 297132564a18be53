// Every step is a list of replacements; one function applies them to the text and to its marks.
#include "text/normalizer.h"

#include <algorithm>

namespace millrace {
namespace {

// Replaces stretches of a text, in ascending order, and carries the marks along: what replaces a
// stretch is marked if anything in the stretch was.
class Rewriter {
 public:
  explicit Rewriter(NormalizedText& target) : target_(target) {}

  void replace(ByteRange source, std::string_view content) {
    if (source.begin == 0 && source.end > 0 && content.empty()) target_.keeps_front = false;
    keep_up_to(source.begin);
    text_.append(content);
    if (has_marks()) {
      const auto first = target_.plain_marks.begin() + static_cast<std::ptrdiff_t>(source.begin);
      const auto last = target_.plain_marks.begin() + static_cast<std::ptrdiff_t>(source.end);
      const bool is_plain = std::any_of(first, last, [](char mark) { return mark != 0; });
      marks_.append(content.size(), is_plain ? 1 : 0);
    }
    kept_ = source.end;
  }

  void finish() {
    keep_up_to(target_.text.size());
    target_.text = std::move(text_);
    if (has_marks()) target_.plain_marks = std::move(marks_);
  }

 private:
  bool has_marks() const { return !target_.plain_marks.empty(); }

  void keep_up_to(size_t end) {
    text_.append(target_.text, kept_, end - kept_);
    if (has_marks()) marks_.append(target_.plain_marks, kept_, end - kept_);
    kept_ = end;
  }

  NormalizedText& target_;
  std::string text_;
  std::string marks_;
  size_t kept_ = 0;
};

void apply_step(NormalizationForm form, NormalizedText& text) {
  const std::vector<NormalizedSpan> spans = normalize_spans(text.text, form);
  if (spans.empty()) return;
  Rewriter rewriter(text);
  for (const NormalizedSpan& span : spans) rewriter.replace(span.source, span.text);
  rewriter.finish();
}

void apply_step(const LowercaseStep&, NormalizedText& text) {
  const std::string& source = text.text;
  Rewriter rewriter(text);
  std::string lower;
  for (size_t pos = 0; pos < source.size();) {
    const CodePoint here = decode_code_point(source, pos);
    lower.clear();
    append_lowercase(here.value, lower);
    if (source.compare(pos, here.num_bytes, lower) != 0) {
      rewriter.replace({pos, pos + here.num_bytes}, lower);
    }
    pos += here.num_bytes;
  }
  rewriter.finish();
}

bool is_space(char32_t code_point) {
  return (CodePointClasses::table().of(code_point) & CodePointClass::kSpace) != 0;
}

void apply_step(const StripStep& step, NormalizedText& text) {
  const std::string& source = text.text;
  size_t begin = 0;
  while (step.left && begin < source.size()) {
    const CodePoint here = decode_code_point(source, begin);
    if (!is_space(here.value)) break;
    begin += here.num_bytes;
  }
  size_t end = source.size();
  while (step.right && end > begin) {
    const size_t size = previous_code_point_size(source, end);
    if (!is_space(decode_code_point(source, end - size).value)) break;
    end -= size;
  }
  if (begin == 0 && end == source.size()) return;
  Rewriter rewriter(text);
  if (begin > 0) rewriter.replace({0, begin}, {});
  rewriter.replace({end, source.size()}, {});
  rewriter.finish();
}

void apply_step(const PrependStep& step, NormalizedText& text) {
  if (text.text.empty()) return;
  Rewriter rewriter(text);
  rewriter.replace({0, 0}, step.text);
  rewriter.finish();
}

void apply_step(const ReplaceStep& step, NormalizedText& text) {
  std::vector<ByteRange> matches;
  step.pattern.find_all(text.text, {0, text.text.size()}, matches);
  if (matches.empty()) return;
  Rewriter rewriter(text);
  for (const ByteRange match : matches) rewriter.replace(match, step.content);
  rewriter.finish();
}

}  // namespace

void Normalizer::apply(NormalizedText& text) const {
  for (const NormalizerStep& step : steps_) {
    std::visit([&](const auto& known) { apply_step(known, text); }, step);
  }
}

}  // namespace millrace
