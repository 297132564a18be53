#include "base/metrics.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

// The processor's number costs a load (glibc keeps it in the thread's rseq area). A thread may have
// moved on by the time it writes: that costs time, and nothing else.
size_t stripe_of_this_thread(size_t num_stripes) {
  return static_cast<size_t>(std::max(0, ::sched_getcpu())) % num_stripes;
}

bool is_name(std::string_view name) {
  const auto is_inner = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == ':';
  };
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9') &&
         std::all_of(name.begin(), name.end(), is_inner);
}

// As Prometheus writes it; whole numbers with ".0" where `is_bound`, its normal form of a bucket's
// bound.
void append_number(double value, bool is_bound, std::string& out) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value > 0 ? "+Inf" : "-Inf";
  } else {
    const size_t begin = out.size();
    fmt::format_to(std::back_inserter(out), "{}", value);
    if (is_bound && out.find_first_of(".e", begin) == std::string::npos) out += ".0";
  }
}

void append_escaped(std::string_view text, bool with_quotes, std::string& out) {
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"' && with_quotes) {
      out += "\\\"";
    } else {
      out += c;
    }
  }
}

// Each followed by a comma.
void append_labels(std::span<const MetricLabel> labels, std::string& out) {
  for (const MetricLabel& label : labels) {
    CHECK(is_name(label.name) && label.name.find(':') == label.name.npos, "not a label's name");
    out += label.name;
    out += "=\"";
    append_escaped(label.value, true, out);
    out += "\",";
  }
}

std::string_view name_of(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "untyped";
}

}  // namespace

void Counter::add(int64_t n) {
  stripes_[stripe_of_this_thread(kNumStripes)].values[0].fetch_add(n, std::memory_order_relaxed);
}

int64_t Counter::value() const {
  int64_t sum = 0;
  for (const MetricLine& stripe : stripes_) sum += stripe.values[0].load(std::memory_order_relaxed);
  return sum;
}

int64_t HistogramReading::count() const {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

Histogram::Histogram(std::vector<double> bounds, int64_t scale)
    : bounds_(std::move(bounds)),
      scale_(scale),
      num_lines_((bounds_.size() + 2 + 7) / 8),
      lines_(kNumStripes * num_lines_) {
  CHECK(!bounds_.empty() && scale > 0, "a histogram needs a bucket and a scale");
  for (const double bound : bounds_) {
    value_bounds_.push_back(std::llround(bound * static_cast<double>(scale)));
  }
  CHECK(
      std::is_sorted(value_bounds_.begin(), value_bounds_.end(), std::less_equal<>{}),
      "the bounds of a histogram ascend"
  );
}

void Histogram::observe(int64_t value) {
  const auto bucket = static_cast<size_t>(
      std::lower_bound(value_bounds_.begin(), value_bounds_.end(), value) - value_bounds_.begin()
  );
  const size_t stripe = stripe_of_this_thread(kNumStripes);
  cell(stripe, 0).fetch_add(value, std::memory_order_relaxed);
  cell(stripe, 1 + bucket).fetch_add(1, std::memory_order_relaxed);
}

HistogramReading Histogram::read() const {
  HistogramReading reading{.bounds = bounds_, .counts = std::vector<int64_t>(bounds_.size() + 1)};
  int64_t sum = 0;
  for (size_t stripe = 0; stripe < kNumStripes; ++stripe) {
    sum += read_cell(stripe, 0);
    for (size_t i = 0; i < reading.counts.size(); ++i) {
      reading.counts[i] += read_cell(stripe, 1 + i);
    }
  }
  reading.sum = static_cast<double>(sum) / static_cast<double>(scale_);
  return reading;
}

MetricsWriter::MetricsWriter(std::span<const MetricLabel> labels) {
  append_labels(labels, common_labels_);
}

void MetricsWriter::family(std::string_view name, MetricType type, std::string_view help) {
  CHECK(is_name(name), "not a metric's name");
  family_ = name;
  fmt::format_to(std::back_inserter(text_), "# HELP {} ", name);
  append_escaped(help, false, text_);
  fmt::format_to(std::back_inserter(text_), "\n# TYPE {} {}\n", name, name_of(type));
}

void MetricsWriter::begin_sample(
    std::string_view suffix, std::span<const MetricLabel> labels, const double* le
) {
  CHECK(!family_.empty(), "a sample before its family");
  text_ += family_;
  text_ += suffix;
  if (!common_labels_.empty() || !labels.empty() || le != nullptr) {
    text_ += '{';
    text_ += common_labels_;
    append_labels(labels, text_);
    if (le != nullptr) {
      text_ += "le=\"";
      append_number(*le, true, text_);
      text_ += '"';
    } else {
      text_.pop_back();  // the comma
    }
    text_ += '}';
  }
  text_ += ' ';
}

void MetricsWriter::sample(double value, std::initializer_list<MetricLabel> labels) {
  begin_sample("", labels, nullptr);
  append_number(value, false, text_);
  text_ += '\n';
}

void MetricsWriter::sample(int64_t value, std::initializer_list<MetricLabel> labels) {
  begin_sample("", labels, nullptr);
  fmt::format_to(std::back_inserter(text_), "{}\n", value);
}

void MetricsWriter::sample(
    const HistogramReading& reading, std::initializer_list<MetricLabel> labels
) {
  CHECK(reading.counts.size() == reading.bounds.size() + 1, "one bucket more than bounds");
  int64_t count = 0;
  for (size_t i = 0; i < reading.counts.size(); ++i) {
    const double bound = i < reading.bounds.size() ? reading.bounds[i] : HUGE_VAL;
    count += reading.counts[i];
    begin_sample("_bucket", labels, &bound);
    fmt::format_to(std::back_inserter(text_), "{}\n", count);
  }
  begin_sample("_sum", labels, nullptr);
  append_number(reading.sum, false, text_);
  text_ += '\n';
  begin_sample("_count", labels, nullptr);
  fmt::format_to(std::back_inserter(text_), "{}\n", count);
}

void MetricsWriter::counter(std::string_view name, std::string_view help, int64_t value) {
  family(name, MetricType::kCounter, help);
  sample(value);
}

void MetricsWriter::gauge(std::string_view name, std::string_view help, double value) {
  family(name, MetricType::kGauge, help);
  sample(value);
}

void MetricsWriter::histogram(
    std::string_view name, std::string_view help, const HistogramReading& reading
) {
  family(name, MetricType::kHistogram, help);
  sample(reading);
}

}  // namespace millrace
