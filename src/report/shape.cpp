#include <fmt/format.h>

#include "report/report.h"

namespace millrace::bench {
namespace {

struct NamedShape {
  std::string_view name;
  Shape shape;
};

constexpr NamedShape kShapes[] = {
    {"grid", Shape::kGrid},
    {"biho", Shape::kGrid},
    {"guidellm", Shape::kGuidellm},
    {"concurrency", Shape::kConcurrency},
    {"plotly", Shape::kPlotly},
    {"sglang", Shape::kSglang},
    {"markdown", Shape::kMarkdown},
    {"csv", Shape::kCsv},
    {"html", Shape::kHtml},
};

}  // namespace

Result<Shape> parse_shape(const std::string& name) {
  for (const NamedShape& known : kShapes) {
    if (known.name == name) return known.shape;
  }
  return invalid_argument(
      fmt::format(
          "'{}' is no shape of a report: expected grid, guidellm, concurrency, plotly, sglang, "
          "markdown, csv or html",
          name.substr(0, 100)
      ),
      "--shape"
  );
}

Formulas formulas_of(Shape shape) {
  switch (shape) {
    case Shape::kGrid:
      return Formulas::kGrid;
    case Shape::kGuidellm:
      // The table's shape is that of 0.1, and so is what its words mean.
      return Formulas::kGuidellm01;
    case Shape::kConcurrency:
    case Shape::kPlotly:
      return Formulas::kVllm;
    case Shape::kSglang:
      return Formulas::kSglang;
    case Shape::kMarkdown:
    case Shape::kCsv:
    case Shape::kHtml:
      return Formulas::kMillrace;
  }
  CHECK(false, "a shape without formulas");
}

}  // namespace millrace::bench
