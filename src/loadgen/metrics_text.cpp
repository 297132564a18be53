#include "loadgen/metrics_text.h"

#include <algorithm>
#include <charconv>

namespace millrace::bench {
namespace {

// A server of many models and ranks has some ten thousand; the text itself is bounded by the
// client.
constexpr size_t kSamplesMax = 1'000'000;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

bool is_name_char(char c) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return is_letter || (c >= '0' && c <= '9') || c == '_' || c == ':' || c == '.';
}

// Takes a line apart from the left.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : rest_(line) {}

  void skip_blanks() {
    while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
  }
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string_view take_name() {
    const auto* end = std::find_if_not(rest_.begin(), rest_.end(), is_name_char);
    return take_prefix(static_cast<size_t>(end - rest_.begin()));
  }
  std::string_view take_word() {
    const auto* end = std::find_if(rest_.begin(), rest_.end(), is_blank);
    return take_prefix(static_cast<size_t>(end - rest_.begin()));
  }
  // What stands between quotes, with its escapes undone; none: they do not end.
  std::optional<std::string> take_quoted() {
    if (!take('"')) return std::nullopt;
    std::string text;
    while (!rest_.empty()) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"') return text;
      if (c != '\\') {
        text += c;
        continue;
      }
      if (rest_.empty()) return std::nullopt;
      text += rest_.front() == 'n' ? '\n' : rest_.front();
      rest_.remove_prefix(1);
    }
    return std::nullopt;
  }

 private:
  std::string_view take_prefix(size_t size) {
    const std::string_view prefix = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return prefix;
  }

  std::string_view rest_;
};

bool read_labels(LineReader& line, MetricSample& sample) {
  if (!line.take('{')) return true;
  while (true) {
    line.skip_blanks();
    if (line.take('}')) return true;
    const std::string_view name = line.take_name();
    line.skip_blanks();
    if (name.empty() || !line.take('=')) return false;
    line.skip_blanks();
    std::optional<std::string> value = line.take_quoted();
    if (!value) return false;
    sample.labels.emplace_back(name, std::move(*value));
    line.skip_blanks();
    if (line.take(',')) continue;
    return line.take('}');
  }
}

std::optional<double> read_number(std::string_view word) {
  // from_chars knows "inf" and "nan" in any case, but no plus sign.
  if (word.starts_with('+')) word.remove_prefix(1);
  double value = 0.0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// `name{label="value",...} value [time] [# exemplar]`
std::optional<MetricSample> read_sample(std::string_view text) {
  LineReader line(text);
  line.skip_blanks();
  MetricSample sample;
  sample.name = line.take_name();
  if (sample.name.empty()) return std::nullopt;
  line.skip_blanks();
  if (!read_labels(line, sample)) return std::nullopt;
  line.skip_blanks();
  const std::optional<double> value = read_number(line.take_word());
  if (!value) return std::nullopt;
  sample.value = *value;
  return sample;
}

bool is_bucket(std::string_view line) {
  const size_t end = line.find_first_of("{ ");
  return line.substr(0, end).ends_with("_bucket");
}

}  // namespace

std::optional<std::string_view> MetricSample::label(std::string_view label_name) const {
  for (const auto& [name_of_label, value_of_label] : labels) {
    if (name_of_label == label_name) return value_of_label;
  }
  return std::nullopt;
}

MetricsText MetricsText::parse(std::string_view text) {
  MetricsText parsed;
  while (!text.empty() && parsed.samples_.size() < kSamplesMax) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool is_empty = std::all_of(line.begin(), line.end(), is_blank);
    if (is_empty || line.starts_with('#') || is_bucket(line)) continue;
    if (std::optional<MetricSample> sample = read_sample(line)) {
      parsed.samples_.push_back(std::move(*sample));
    } else {
      ++parsed.num_odd_lines_;
    }
  }
  return parsed;
}

}  // namespace millrace::bench
