// When the tokens of one mocked answer are due: a pure function of the options, the request's
// number and the token's index.
#pragma once

#include <chrono>
#include <cstdint>

#include "loadgen/mock_server.h"

namespace millrace::bench {

// A walk over the answer's tokens, from the first on. Copies walk on their own.
class TokenTimes {
 public:
  // `options` outlive this.
  TokenTimes(const MockOptions& options, int64_t number);

  // Of the token that it stands at, since the answer's turn came.
  std::chrono::nanoseconds due() const { return due_; }
  void advance(int64_t num_tokens);

 private:
  std::chrono::nanoseconds draw(const MockTime& time) const;

  const MockOptions* options_;
  uint64_t key_;
  int64_t index_ = 0;
  std::chrono::nanoseconds due_;
};

}  // namespace millrace::bench
