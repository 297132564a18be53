// The words of Error::reason. They are the `code` of an answer's error, so that a program can act
// on them: most are OpenAI's, and none changes its meaning.
#pragma once

#include <string_view>

namespace millrace::error_reason {

// The request cannot be read.
inline constexpr std::string_view kInvalidJson = "invalid_json";
inline constexpr std::string_view kMissing = "missing_required_parameter";
inline constexpr std::string_view kUnknown = "unknown_parameter";
inline constexpr std::string_view kInvalidType = "invalid_type";
inline constexpr std::string_view kInvalidValue = "invalid_value";

// A value is out of its range.
inline constexpr std::string_view kIntegerBelowMin = "integer_below_min_value";
inline constexpr std::string_view kIntegerAboveMax = "integer_above_max_value";
inline constexpr std::string_view kDecimalBelowMin = "decimal_below_min_value";
inline constexpr std::string_view kDecimalAboveMax = "decimal_above_max_value";
inline constexpr std::string_view kStringBelowMin = "string_below_min_length";
inline constexpr std::string_view kStringAboveMax = "string_above_max_length";
inline constexpr std::string_view kArrayBelowMin = "array_below_min_length";
inline constexpr std::string_view kArrayAboveMax = "array_above_max_length";
inline constexpr std::string_view kObjectAboveMax = "object_above_max_properties";

// The request is understood and cannot be served.
inline constexpr std::string_view kUnsupported = "unsupported_parameter";
inline constexpr std::string_view kContextLengthExceeded = "context_length_exceeded";
inline constexpr std::string_view kModelNotFound = "model_not_found";
inline constexpr std::string_view kTemplateRefused = "chat_template_error";

// The server is full, and whose requests fill it: the client's own, or everybody's (no reason).
inline constexpr std::string_view kRateLimit = "rate_limit_exceeded";

}  // namespace millrace::error_reason
