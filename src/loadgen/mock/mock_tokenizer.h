// The made-up tokenizer of the mock server. Each word (between white space) is one token: "w123" is
// the token 123, and any other word one that its letters decide. So lengths are exact, text made of
// ids comes back as the same ids, and texts may be joined: each token's text starts with a space.
// Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"

namespace millrace::bench {

inline constexpr TokenId kMockVocabSize = 100'000;

size_t count_mock_tokens(std::string_view text);
std::vector<TokenId> encode_mock_text(std::string_view text);

// Adds " w123". REQUIRES: 0 <= id < kMockVocabSize.
void append_mock_token(TokenId id, std::string& out);

// The `index`-th token of the answer to the request `number`.
TokenId mock_output_token(uint64_t seed, int64_t number, int64_t index);

}  // namespace millrace::bench
