#include "server/routes.h"

namespace millrace {

Error overloaded() {
  return {
      .code = ErrorCode::kResourceExhausted,
      .message = "too many requests wait; try again later",
      .reason = "overloaded",
  };
}

}  // namespace millrace
