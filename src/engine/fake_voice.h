// For tests: the logits of a model that is a hash of all tokens before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/id.h"
#include "base/rng.h"

namespace millrace {

constexpr uint64_t kHashSeed = 20;

// What a fake model says after a sequence: noise from -4 to 4 that depends on all of its tokens;
// and a habit of saying the same after the same token, of this many units, so that text repeats
// itself.
struct FakeVoice {
  size_t vocab_size = 0;
  float habit = 0.0F;
};

// What stands for the hidden state of a token.
struct FakeState {
  uint64_t hash = kHashSeed;
  TokenId last = 0;
};

// Logits [vocab_size] that follow the state.
inline void append_fake_logits(
    const FakeState& state, const FakeVoice& voice, std::vector<float>& logits
) {
  const size_t begin = logits.size();
  for (size_t token = 0; token < voice.vocab_size; ++token) {
    logits.push_back(static_cast<float>(random_unit(state.hash, token) * 8.0 - 4.0));
  }
  const uint64_t next = mix64(static_cast<uint64_t>(state.last)) % voice.vocab_size;
  logits[begin + static_cast<size_t>(next)] += voice.habit;
}

inline void extend(FakeState& state, TokenId token) {
  state.hash = mix64(state.hash ^ mix64(static_cast<uint64_t>(token) + 1));
  state.last = token;
}

}  // namespace millrace
