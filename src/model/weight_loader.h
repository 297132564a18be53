// Reads the matrices and vectors of a model out of a WeightSource: what load_weights() is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/weight_source.h"
#include "kernels/quantized/error_feedback.h"
#include "kernels/quantized/weight_matrix.h"
#include "model/coded_matrices.h"
#include "model/matrix_place.h"
#include "model/weights.h"

namespace millrace {

// A layer's experts, as their tensors are called.
struct ExpertNames {
  std::string prefix;  // of the layer's mixture
  size_t num_experts = 0;

  std::string tensor(size_t expert, const std::string& name) const;
  std::string any(const std::string& name) const;  // for errors that are of all of them
};

// Reads and packs tensors whose names and shapes were checked.
class WeightLoader {
 public:
  struct Options {
    const WeightFormat& format;
    const CodedMatrices* coded;  // where codes are kept, else null
    size_t num_tensors;
    const LoadProgress& progress;
    const FeedbackSource& feedback;
  };

  WeightLoader(const WeightSource& source, ThreadPool& pool, const Options& options)
      : source_(source), pool_(pool), options_(options) {}

  // Of a quantized model a value that is not finite is remembered, and check_vectors() refuses it.
  std::vector<float> vector(const std::string& name);
  Result<void> check_vectors() const { return error_ ? Result<void>(*error_) : Result<void>(); }
  Result<WeightMatrix> head(const std::string& name);
  // Not quantized, but for codes that it is stored as.
  Result<WeightMatrix> embedding(const std::string& name);

  // Matrices of the same width, one below the other.
  Result<WeightMatrix> stacked(const std::vector<std::string>& names, const MatrixPlace& place);
  Result<WeightMatrix> stacked(const std::vector<std::string>& names, MatrixFormat format);

  // The same of what is not quantized.
  Result<WeightMatrix> unquantized(const std::vector<std::string>& names);

  // The matrix `name` of each expert, one below the other, and each from a panel of its own on.
  Result<WeightMatrix> expert_parts(const ExpertNames& experts, const std::string& name);

  // Two matrices of each expert, their panels in turn.
  Result<WeightMatrix> alternating_expert_parts(
      const ExpertNames& experts, const std::string& even, const std::string& odd
  );

  // Two matrices of the same shape, their panels in turn.
  Result<WeightMatrix> alternating(
      const std::string& even, const std::string& odd, const MatrixPlace& place
  );

 private:
  // Panel i of what is read becomes panel first + i * step of the matrix.
  struct PanelPlaces {
    size_t first;
    size_t step;
  };

  struct Pair {
    std::string even;
    std::string odd;
  };

  // Pairs of one shape, one below the other. `shown`: what an error calls them.
  Result<WeightMatrix> alternating(
      const std::vector<Pair>& pairs,
      const std::vector<std::string>& shown,
      const std::optional<ErrorFeedback>& feedback
  );

  Result<WeightMatrix> allocate_parts(size_t num_parts, size_t part_panels, const TensorInfo& like)
      const;

  // Of a matrix of the layers.
  MatrixFormat format_of(const std::string& name) const;

  std::optional<ErrorFeedback> feedback_of(MatrixFormat format, const MatrixPlace& place) const;

  Result<WeightMatrix> stacked(
      const std::vector<std::string>& names,
      MatrixFormat format,
      const std::optional<ErrorFeedback>& feedback
  );

  // Up to 16 rows from `row` on of tensors one below the other.
  struct StackedRows {
    std::span<const TensorInfo* const> tensors;
    size_t row;
  };

  // What a panel is read into: [16, num_columns], and [16, scales of a row].
  struct PanelRows {
    size_t num_columns;
    std::vector<float> values = {};
    std::vector<uint8_t> codes = {};
    std::vector<float> scales = {};
    std::vector<float> bases = {};
  };

  // kInvalidArgument where a value of a quantized model, or a scale or base of codes, is not
  // finite: it names the tensor.
  Result<void> fill(
      WeightMatrix& packed,
      const std::vector<std::string>& names,
      PanelPlaces places,
      const std::optional<ErrorFeedback>& feedback
  );

  // Reads and packs what becomes panel `place`. Of what fill() refuses the first row, counted from
  // the first tensor's; none: it is packed.
  std::optional<size_t> fill_panel(
      WeightMatrix& packed,
      size_t place,
      const StackedRows& from,
      const std::optional<ErrorFeedback>& feedback,
      PanelRows& rows
  ) const;

  static Error not_finite_error(std::span<const TensorInfo* const> tensors, size_t row);

  // The matrix, if it took all weights of the tensors.
  static Result<WeightMatrix> whole(WeightMatrix matrix, const std::vector<std::string>& names);

  // Returns how many rows there were.
  // read(tensor, row, count, place): `count` of them, of which the first is the panel's `place`-th.
  template <class Read>
  static size_t for_stacked_rows(const StackedRows& from, const Read& read);

  std::span<const float> read_stacked_rows(const StackedRows& from, PanelRows& to) const;

  CodedRows read_stacked_codes(const StackedRows& from, size_t num_inputs, PanelRows& to) const;

  const TensorInfo& find(const std::string& name) const;
  static size_t num_rows_of(const TensorInfo& tensor);
  size_t num_columns_of(const std::string& name) const;
  void count_tensor();

  const WeightSource& source_;
  ThreadPool& pool_;
  Options options_;
  size_t num_tensors_done_ = 0;
  std::optional<Error> error_;  // of the first vector that is wrong
};

}  // namespace millrace
