// The first stage of a tokenizer: rewrites a text before it is cut. The steps of Hugging Face
// `tokenizers` (normalizers/*.rs) under their names there. Immutable; callable from any thread.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/text_pattern.h"
#include "text/unicode.h"

namespace millrace {

// A text on its way through the normalizer.
struct NormalizedText {
  std::string text;
  // Either empty, or one flag for each byte of `text`: not 0 where it comes from a byte that a user
  // supplied, in which special tokens must not be recognised.
  std::string plain_marks;
  // Whether the text still begins with what the source began with; what was added counts as that.
  bool keeps_front = true;
};

struct LowercaseStep {};
struct StripStep {
  bool left = false;
  bool right = false;
};
struct PrependStep {
  std::string text;  // nothing is prepended to an empty text
};
struct ReplaceStep {
  TextPattern pattern;
  std::string content;
};

using NormalizerStep =
    std::variant<NormalizationForm, LowercaseStep, StripStep, PrependStep, ReplaceStep>;

class Normalizer {
 public:
  Normalizer() = default;  // leaves every text as it is
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  bool is_identity() const { return steps_.empty(); }

  // REQUIRES: `text.text` is valid UTF-8.
  void apply(NormalizedText& text) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace millrace
