// Arbitrary bytes as a tokenizer.json: refused with an error, or a tokenizer that encodes and
// decodes without harm. The bytes behind the first NUL, if there is one, are the text to encode.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t nul = input.find('\0');
  const std::string_view text = nul == std::string_view::npos
                                    ? "the low\xC3\xA9 <s>\xFF 12 \xE2\x96\x81x"
                                    : input.substr(nul + 1);
  const Result<Tokenizer> tokenizer = Tokenizer::from_json(input.substr(0, nul));
  if (!tokenizer) {
    CHECK(!tokenizer.error().message.empty(), "an error without a message");
    return 0;
  }
  std::vector<TokenId> ids = tokenizer->encode(text);
  const ByteRange plain{text.size() / 3, text.size() / 2};
  const auto more = tokenizer->encode(text, {.plain_text = {&plain, 1}});
  ids.insert(ids.end(), more.begin(), more.end());
  for (const TokenId id : {-1, 0, 1, 7, 2'000'000'000}) ids.push_back(id);
  for (const bool skip : {false, true}) {
    const std::string decoded = tokenizer->decode(ids, skip);
    CHECK(is_valid_utf8(decoded), "decoding gave something else than UTF-8");
    IncrementalDetokenizer detokenizer(*tokenizer, skip);
    std::string pieces;
    for (const TokenId id : ids) pieces += detokenizer.push(id);
    pieces += detokenizer.finish();
    CHECK(pieces == decoded, "the pieces are not the whole");
  }
  for (const TokenId id : ids) {
    static_cast<void>(tokenizer->token_bytes(id));
    static_cast<void>(tokenizer->token_text(id));
  }
  return 0;
}
