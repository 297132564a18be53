// What a function returns when it can fail for a reason that someone must be told.
// Not for "nothing there" (std::optional) and not for our own bugs (CHECK).
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace millrace {

enum class ErrorCode {
  kInvalidArgument,    // the input is wrong and stays wrong
  kNotFound,           // the named thing does not exist
  kUnsupported,        // understood, and not offered
  kResourceExhausted,  // it would need more than there is
  kDeadlineExceeded,
  kCancelled,
  kInternal,  // a defect of ours, or of the machine
};

// `message` is one line without a full stop at its end: what, where, and what was expected.
// `where` names the place in the input (a JSON path, a flag, a file), or is empty. `reason` is a
// stable word for programs where `code` is too coarse (base/error_reason.h), or empty.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string where = {};
  std::string_view reason = {};  // of static storage
  // With kResourceExhausted: when it may be worth another try, as far as that can be told.
  std::optional<std::chrono::seconds> retry_after = {};

  friend bool operator==(const Error&, const Error&) = default;
};

[[nodiscard]] inline Error invalid_argument(
    std::string message, std::string where = {}, std::string_view reason = {}
) {
  return {ErrorCode::kInvalidArgument, std::move(message), std::move(where), reason};
}
[[nodiscard]] inline Error not_found(std::string message, std::string where = {}) {
  return {ErrorCode::kNotFound, std::move(message), std::move(where)};
}
[[nodiscard]] inline Error unsupported(std::string message, std::string where = {}) {
  return {ErrorCode::kUnsupported, std::move(message), std::move(where)};
}

// Either a T or the Error that stands in its way. Reading the wrong one is a broken invariant.
//
//   Result<Config> config = read_config(path);
//   if (!config) return config.error();
//   use(*config);
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    CHECK(!ok(), "error() of a Result that holds a value");
    return *std::get_if<1>(&state_);
  }

 private:
  T& value() {
    CHECK(ok(), std::get_if<1>(&state_)->message);
    return *std::get_if<0>(&state_);
  }
  const T& value() const {
    CHECK(ok(), std::get_if<1>(&state_)->message);
    return *std::get_if<0>(&state_);
  }

  std::variant<T, Error> state_;
};

// Success without a value: `return {};`.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }

  const Error& error() const {
    CHECK(!ok(), "error() of a Result that holds a value");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace millrace
