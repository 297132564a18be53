// Flags that name an element type.
#pragma once

#include <string>

#include "base/result.h"
#include "tensor/dtype.h"

namespace millrace {

// "auto" gives `automatic`; "half" and "float" are accepted as vLLM does.
Result<DType> resolve_dtype(const std::string& flag, const std::string& name, DType automatic);

}  // namespace millrace
