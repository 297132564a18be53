// From a template's source to tokens, as Jinja does with trim_blocks and lstrip_blocks: the white
// space around tags is already removed here, comments are gone and raw blocks are data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::jinja {

enum class TokenKind {
  kData,
  kBlockBegin,
  kBlockEnd,
  kPrintBegin,
  kPrintEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // of a string, with its escapes decoded; of a number, without underscores
  int line = 1;
};

// An error that names the line of a template.
Error template_error(std::string message, int line);

// The last token is kEnd.
Result<std::vector<Token>> tokenize(std::string_view source);

// Decodes what stands between the quotes of a string literal. The error is a message.
Result<std::string> decode_string_literal(std::string_view body);

}  // namespace millrace::jinja
