#include "loadgen/mock/mock_tokenizer.h"

#include <array>
#include <charconv>

#include "base/check.h"
#include "base/rng.h"

namespace millrace::bench {
namespace {

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

template <class Take>
void for_each_word(std::string_view text, const Take& take) {
  size_t at = 0;
  while (true) {
    while (at < text.size() && is_space(text[at])) ++at;
    if (at == text.size()) return;
    const size_t begin = at;
    while (at < text.size() && !is_space(text[at])) ++at;
    take(text.substr(begin, at - begin));
  }
}

// FNV-1a; any hash would do, as long as it is the same everywhere.
TokenId hashed(std::string_view word) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : word) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  return static_cast<TokenId>(hash % static_cast<uint64_t>(kMockVocabSize));
}

TokenId token_of(std::string_view word) {
  if (word.size() < 2 || word.front() != 'w') return hashed(word);
  TokenId id = 0;
  const auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), id);
  // "w007" is not what 7 is written as.
  const bool is_canonical = word.size() == 2 || word[1] != '0';
  const bool is_id = error == std::errc{} && end == word.data() + word.size() && id >= 0 &&
                     id < kMockVocabSize && is_canonical;
  return is_id ? id : hashed(word);
}

}  // namespace

size_t count_mock_tokens(std::string_view text) {
  size_t count = 0;
  bool was_space = true;
  for (const char c : text) {
    const bool is_now = is_space(c);
    count += was_space && !is_now ? 1 : 0;
    was_space = is_now;
  }
  return count;
}

std::vector<TokenId> encode_mock_text(std::string_view text) {
  std::vector<TokenId> ids;
  for_each_word(text, [&](std::string_view word) { ids.push_back(token_of(word)); });
  return ids;
}

void append_mock_token(TokenId id, std::string& out) {
  CHECK(id >= 0 && id < kMockVocabSize, "ids are checked where they come in");
  std::array<char, 16> text = {' ', 'w'};
  const auto [end, error] = std::to_chars(text.data() + 2, text.data() + text.size(), id);
  out.append(text.data(), end);
}

TokenId mock_output_token(uint64_t seed, int64_t number, int64_t index) {
  const uint64_t bits =
      random_bits(seed ^ static_cast<uint64_t>(number), static_cast<uint64_t>(index));
  return static_cast<TokenId>(bits % static_cast<uint64_t>(kMockVocabSize));
}

}  // namespace millrace::bench
