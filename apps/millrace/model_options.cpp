#include "model_options.h"

#include <fmt/format.h>

#include <optional>

namespace millrace {

Result<DType> resolve_dtype(const std::string& flag, const std::string& name, DType automatic) {
  if (name == "auto") return automatic;
  if (name == "half") return DType::kFloat16;
  if (name == "float") return DType::kFloat32;
  const std::optional<DType> dtype = dtype_from_name(name);
  if (dtype) return *dtype;
  return invalid_argument(
      fmt::format("{} must be auto, float32, float16 or bfloat16, got '{}'", flag, name), flag
  );
}

}  // namespace millrace
