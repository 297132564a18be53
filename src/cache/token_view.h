// The tokens of a sequence where they lie: its prompt, which several sequences may share, and then
// what it has generated. Borrowed; valid as long as both are unchanged.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/id.h"

namespace millrace {

struct TokenView {
  std::span<const TokenId> prompt;
  std::span<const TokenId> output = {};

  int32_t size() const { return static_cast<int32_t>(prompt.size() + output.size()); }

  // REQUIRES: 0 <= position < size().
  TokenId at(int32_t position) const {
    const auto index = static_cast<size_t>(position);
    return index < prompt.size() ? prompt[index] : output[index - prompt.size()];
  }

  // Writes the tokens from `first` on. REQUIRES: first + out.size() <= size().
  void copy(int32_t first, std::span<TokenId> out) const {
    auto begin = static_cast<size_t>(first);
    if (begin < prompt.size()) {
      const std::span<const TokenId> head =
          prompt.subspan(begin, std::min(out.size(), prompt.size() - begin));
      std::copy(head.begin(), head.end(), out.begin());
      out = out.subspan(head.size());
      begin = prompt.size();
    }
    const std::span<const TokenId> rest = output.subspan(begin - prompt.size(), out.size());
    std::copy(rest.begin(), rest.end(), out.begin());
  }

  // The tokens from `first` on: where they lie, if they lie together, or copied to `buffer`, whose
  // size says how many. REQUIRES: first + buffer.size() <= size().
  std::span<const TokenId> read(int32_t first, std::span<TokenId> buffer) const {
    const auto begin = static_cast<size_t>(first);
    if (begin + buffer.size() <= prompt.size()) return prompt.subspan(begin, buffer.size());
    if (begin >= prompt.size()) return output.subspan(begin - prompt.size(), buffer.size());
    copy(first, buffer);
    return buffer;
  }
};

}  // namespace millrace
