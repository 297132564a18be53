// Where weights come from: one seam for safetensors, GGUF and dummy weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace {

// How a tensor lies in its file. kOther: a type that the format allows and nothing here can read;
// such a tensor is listed all the same, and only who wants to load it is refused.
enum class StorageType {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kIQ4_NL,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_XS,
  kOther,
};

struct TensorInfo {
  std::string name;  // Hugging Face's name, also for GGUF files
  StorageType storage = StorageType::kF32;
  std::vector<int64_t> shape;     // outermost first: [out, in] for a matrix
  std::string storage_name = {};  // the file's own word for kOther ("I32", "IQ2_S"); else empty

  // A row is all but the first dimension; a vector or a scalar is one row.
  int64_t num_rows() const;
  int64_t row_length() const;
};

// CHECKs rows [row_begin, row_begin + num_rows) and `num_values`, the room for them, against a
// tensor: what read_rows() requires.
void check_rows(const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, size_t num_values);

// Refuses a tensor that read_rows cannot read, by its name and type.
Result<void> check_readable(const TensorInfo& tensor);

// "[49152, 576]"
std::string format_shape(std::span<const int64_t> shape);

// How a matrix is stored that another tool has quantized to whole numbers:
// weight = code * scale + base.
struct CodeForm {
  int bits = 0;               // of a code: 2 to 6 or 8; 0: it is stored otherwise
  size_t num_inputs = 0;      // neighbours that share a scale and a base: 64, 32 or 16
  bool is_symmetric = false;  // every base is -2^(bits - 1) times its scale
  bool is_iq4 = false;        // codes are the sixteen values of IQ4, with 128 added

  explicit operator bool() const { return bits != 0; }
  friend bool operator==(const CodeForm&, const CodeForm&) = default;
};

// Rows of such a matrix.
struct StoredCodes {
  std::span<uint8_t> codes;  // [rows, row length], 0 .. 2^bits - 1
  std::span<float> scales;   // [rows, ceil(row length / num_inputs)]
  std::span<float> bases;    // the same: the weights of code 0
  size_t num_inputs = 64;    // neighbours that share a scale and a base: 64, 32 or 16
};

// Tensors by Hugging Face's names, read as float32 rows. Reading is const and thread-safe.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  virtual std::span<const TensorInfo> tensors() const = 0;

  // nullptr when there is none of that name.
  virtual const TensorInfo* find(std::string_view name) const = 0;

  // Writes rows [row_begin, row_begin + num_rows) of a tensor as float32, exactly as stored or
  // dequantized. A row is all but the first dimension; a vector is one row.
  // `out`: [num_rows, row length]. REQUIRES: the tensor is one of tensors(), check_readable() holds
  // for it, and the rows are within it.
  virtual void read_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
  ) const = 0;

  // Of a matrix that read_codes() can read, with the largest num_inputs that it may be asked for.
  // May look at all of a matrix's zero points. REQUIRES: the tensor is one of tensors().
  virtual CodeForm code_form(const TensorInfo& /*tensor*/) const { return {}; }

  // Writes rows [row_begin, row_begin + num_rows) as they are stored, bases of symmetric ones too.
  // REQUIRES: out.num_inputs divides that of code_form(), and as read_rows().
  virtual void read_codes(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, const StoredCodes& out
  ) const;

  // The tensor's bytes as they lie in the file; empty where there is no file or it is kept
  // otherwise. REQUIRES: the tensor is one of tensors().
  virtual std::span<const std::byte> raw_bytes(const TensorInfo& /*tensor*/) const { return {}; }
};

}  // namespace millrace
