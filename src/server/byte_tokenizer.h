// For tests and benchmarks: a byte-level tokenizer with one token for each byte (its id), and two
// added tokens.
#pragma once

#include <string>

#include "base/check.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace millrace {

inline constexpr TokenId kByteTokenizerEnd = 256;    // "<|end|>", special
inline constexpr TokenId kByteTokenizerHello = 257;  // "Hello", not special

inline Tokenizer make_byte_tokenizer() {
  json::object vocabulary;
  int next = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    const int code = printable ? byte : 256 + next++;
    std::string text;
    if (code < 128) {
      text.push_back(static_cast<char>(code));
    } else {
      text.push_back(static_cast<char>(0xC0 | (code >> 6)));
      text.push_back(static_cast<char>(0x80 | (code & 0x3F)));
    }
    vocabulary[text] = byte;
  }
  const json::array added = {
      {{"id", kByteTokenizerEnd}, {"content", "<|end|>"}, {"special", true}},
      {{"id", kByteTokenizerHello}, {"content", "Hello"}, {"special", false}},
  };
  const json::object tokenizer = {
      {"added_tokens", added},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
  };
  Result<Tokenizer> made = Tokenizer::from_json(json::serialize(tokenizer));
  CHECK(made.ok(), made.error().message);
  return *std::move(made);
}

}  // namespace millrace
