// Encoding: a word is looked up whole, else its symbols are merged, in a scan for short words and
// by a heap for long ones.
#include "text/bpe.h"

#include <algorithm>

#include "base/check.h"
#include "base/rng.h"
#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace millrace {
namespace {

// Up to here scanning all ranks for each merge beats a heap (tokenizer_bench, BM_OneWord).
constexpr size_t kShortWordMax = 48;

// The heap's order: best rank on top, then leftmost.
bool is_worse(const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

constexpr int32_t kNoNeighbour = -1;

}  // namespace

bool Bpe::encode_word(
    std::string_view word, BpeScratch& scratch, std::vector<TokenId>& out, size_t num_tokens_max
) const {
  if (const std::optional<TokenId> whole = words_.find(word)) {
    out.push_back(*whole);
    return true;
  }
  scratch.ids.clear();
  if (!reads_bytes_) {
    collect_character_symbols(word, scratch.ids);
  } else if (!collect_byte_symbols(word, scratch.ids)) {
    // A byte that the vocabulary lacks is an unknown character of the byte alphabet.
    scratch.ids.clear();
    scratch.mapped.clear();
    append_byte_characters(word, scratch.mapped);
    collect_character_symbols(scratch.mapped, scratch.ids);
  }
  if (scratch.ids.size() / num_token_symbols_max_ > num_tokens_max) return false;
  merge(scratch);
  out.insert(out.end(), scratch.ids.begin(), scratch.ids.end());
  return true;
}

bool Bpe::collect_byte_symbols(std::string_view word, std::vector<TokenId>& ids) const {
  for (const char c : word) {
    const TokenId id = byte_symbols_[static_cast<uint8_t>(c)];
    if (id == kNoSymbol) return false;
    ids.push_back(id);
  }
  return true;
}

bool Bpe::append_fallback_bytes(std::string_view character, std::vector<TokenId>& ids) const {
  if (!has_byte_fallback_) return false;
  const bool are_known = std::all_of(character.begin(), character.end(), [&](char c) {
    return fallback_symbols_[static_cast<uint8_t>(c)] != kNoSymbol;
  });
  if (!are_known) return false;
  for (const char c : character) ids.push_back(fallback_symbols_[static_cast<uint8_t>(c)]);
  return true;
}

// An unknown token is held back until the next known character, since it may take in further
// unknown ones. As in the reference, bytes that stand in for a character do not end the wait, so
// that they come out before an unknown token that stood before them.
void Bpe::collect_character_symbols(std::string_view word, std::vector<TokenId>& ids) const {
  std::string decorated;
  bool has_unknown = false;
  for (size_t pos = 0; pos < word.size();) {
    const size_t size = decode_code_point(word, pos).num_bytes;
    std::string_view character = word.substr(pos, size);
    const bool has_prefix = pos > 0 && !continuing_prefix_.empty();
    const bool has_suffix = pos + size == word.size() && !end_of_word_suffix_.empty();
    if (has_prefix || has_suffix) {
      decorated = has_prefix ? continuing_prefix_ : std::string();
      decorated.append(character);
      if (has_suffix) decorated.append(end_of_word_suffix_);
      character = decorated;
    }
    pos += size;
    if (const std::optional<TokenId> id = vocabulary_.find(character)) {
      if (has_unknown) ids.push_back(*unknown_);
      has_unknown = false;
      ids.push_back(*id);
      continue;
    }
    if (append_fallback_bytes(character, ids) || !unknown_) continue;
    if (has_unknown && !fuses_unknown_) ids.push_back(*unknown_);
    has_unknown = true;
  }
  if (has_unknown) ids.push_back(*unknown_);
}

const Bpe::Merge* Bpe::find_merge(TokenId left, TokenId right) const {
  if (pairs_.empty()) return nullptr;
  const uint64_t pair = static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
  const size_t mask = pairs_.size() - 1;
  for (size_t i = mix64(pair) & mask;; i = (i + 1) & mask) {
    if (pairs_[i].pair == pair) return &pairs_[i].merge;
    if (pairs_[i].pair == kNoPair) return nullptr;
  }
}

void Bpe::merge(BpeScratch& scratch) const {
  if (scratch.ids.size() < 2) return;
  if (scratch.ids.size() <= kShortWordMax) {
    merge_short(scratch);
  } else {
    merge_long(scratch);
  }
}

// ranks[i] is the rank of the pair (ids[i], ids[i + 1]).
void Bpe::merge_short(BpeScratch& scratch) const {
  std::vector<TokenId>& ids = scratch.ids;
  std::vector<uint32_t>& ranks = scratch.ranks;
  const auto rank_of = [&](size_t i) {
    const Merge* found = find_merge(ids[i], ids[i + 1]);
    return found == nullptr ? kNoRank : found->rank;
  };
  ranks.resize(ids.size() - 1);
  for (size_t i = 0; i + 1 < ids.size(); ++i) ranks[i] = rank_of(i);
  while (!ranks.empty()) {
    const auto best = std::min_element(ranks.begin(), ranks.end());
    if (*best == kNoRank) return;
    const auto i = static_cast<size_t>(best - ranks.begin());
    ids[i] = find_merge(ids[i], ids[i + 1])->merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    ranks.erase(best);
    if (i < ranks.size()) ranks[i] = rank_of(i);
    if (i > 0) ranks[i - 1] = rank_of(i - 1);
  }
}

void Bpe::push_candidate(BpeScratch& scratch, int32_t left, int32_t right) const {
  const auto& symbols = scratch.symbols;
  const Merge* found =
      find_merge(symbols[static_cast<size_t>(left)].id, symbols[static_cast<size_t>(right)].id);
  if (found == nullptr) return;
  scratch.heap.push_back({found->rank, left, found->merged});
}

// Symbols are a linked list; a candidate whose pair has changed since is dropped when it comes up.
void Bpe::merge_long(BpeScratch& scratch) const {
  const size_t num_symbols = scratch.ids.size();
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  symbols.resize(num_symbols);
  heap.clear();
  for (size_t i = 0; i < num_symbols; ++i) {
    const auto position = static_cast<int32_t>(i);
    symbols[i] = {scratch.ids[i], position - 1, i + 1 < num_symbols ? position + 1 : kNoNeighbour};
  }
  for (size_t i = 0; i + 1 < num_symbols; ++i) {
    push_candidate(scratch, static_cast<int32_t>(i), static_cast<int32_t>(i + 1));
  }
  std::make_heap(heap.begin(), heap.end(), is_worse);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), is_worse);
    const BpeScratch::Candidate best = heap.back();
    heap.pop_back();
    BpeScratch::Symbol& left = symbols[static_cast<size_t>(best.position)];
    if (left.id == kNoSymbol || left.next == kNoNeighbour) continue;
    BpeScratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    const Merge* current = find_merge(left.id, right.id);
    if (current == nullptr || current->rank != best.rank || current->merged != best.merged)
      continue;
    left.id = best.merged;
    right.id = kNoSymbol;
    left.next = right.next;
    if (left.next != kNoNeighbour) {
      symbols[static_cast<size_t>(left.next)].previous = best.position;
      const size_t before = heap.size();
      push_candidate(scratch, best.position, left.next);
      if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), is_worse);
    }
    if (left.previous != kNoNeighbour) {
      const size_t before = heap.size();
      push_candidate(scratch, left.previous, best.position);
      if (heap.size() > before) std::push_heap(heap.begin(), heap.end(), is_worse);
    }
  }
  scratch.ids.clear();
  for (int32_t i = 0; i != kNoNeighbour; i = symbols[static_cast<size_t>(i)].next) {
    scratch.ids.push_back(symbols[static_cast<size_t>(i)].id);
  }
}

std::optional<std::string_view> Bpe::text(TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) >= texts_.size()) return std::nullopt;
  const std::optional<std::string>& found = texts_[static_cast<size_t>(id)];
  if (!found) return std::nullopt;
  return *found;
}

}  // namespace millrace
