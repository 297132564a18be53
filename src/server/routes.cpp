#include "server/routes.h"

namespace millrace {

Error overloaded() {
  return {
      .code = ErrorCode::kResourceExhausted,
      .message = "too many requests wait; try again later",
      .reason = "overloaded",
  };
}

Error deadline_exceeded() {
  return {ErrorCode::kDeadlineExceeded, "the request's time limit has passed"};
}

}  // namespace millrace
