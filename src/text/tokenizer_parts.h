// The stages of a tokenizer, as the readers of the two file formats hand them over.
#pragma once

#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"

namespace millrace {

// Tokens that stand around every encoded text.
struct PostProcessor {
  std::vector<TokenId> before;
  std::vector<TokenId> after;
};

struct TokenizerParts {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  BpeConfig model;  // `reads_bytes` is set by the assembler
  std::vector<AddedToken> added_tokens;
  PostProcessor post_processor;
  TextDecoder decoder;
};

class TokenizerAssembler {
 public:
  // Checks the parts against one another. An added token that the vocabulary has too must have the
  // same id there. The error's `where` names the part ("model", "added_tokens", "post_processor").
  static Result<Tokenizer> assemble(TokenizerParts parts);
};

}  // namespace millrace
