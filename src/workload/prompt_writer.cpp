#include "workload/prompt_writer.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace millrace::bench {
namespace {

// Rounds of encoding and mending before the closest text is taken as it is. Words mostly need
// none; random ids settle in three.
constexpr int kRoundsMax = 12;
constexpr int kCutRounds = 3;
constexpr uint64_t kFillSalt = 0x66696c6c;
constexpr uint64_t kStartSalt = 0x7374617274;
constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// The closer one to the target; of two as close, the first.
void keep_closer(const CountedText& found, int64_t target, std::optional<CountedText>& best) {
  if (!best || std::abs(found.num_tokens - target) < std::abs(best->num_tokens - target)) {
    best = found;
  }
}

}  // namespace

uint64_t key_of(uint64_t key, uint64_t index) {
  return mix64(mix64(key) + index);
}

Result<std::shared_ptr<const PromptWriter>> PromptWriter::make(
    std::shared_ptr<const TokenCodec> codec
) {
  CHECK(codec != nullptr, "prompts without a codec");
  std::shared_ptr<PromptWriter> writer(new PromptWriter(std::move(codec)));
  Result<WordPool> words = WordPool::build(*writer->codec_);
  if (!words) return words.error();
  writer->words_ = *std::move(words);
  constexpr size_t kVocabSizeMax = size_t{1} << 24;
  const size_t vocab_size = std::min(writer->codec_->vocab_size(), kVocabSizeMax);
  for (size_t i = 0; i < vocab_size; ++i) {
    const TokenId id = static_cast<TokenId>(i);
    if (!writer->codec_->is_reserved(id)) writer->allowed_ids_.push_back(id);
  }
  if (writer->words_.is_empty() && writer->allowed_ids_.empty()) {
    return invalid_argument("the tokenizer has no tokens that a prompt could be made of");
  }
  if (writer->words_.is_empty()) {
    if (Result<void> found = writer->find_fill_ids(); !found) return found.error();
  }
  return std::shared_ptr<const PromptWriter>(std::move(writer));
}

// Half a character, and what only a neighbour makes a token of its own, cannot be counted on.
Result<void> PromptWriter::find_fill_ids() {
  if (codec_->is_local()) {
    for (const TokenId id : allowed_ids_) {
      Result<std::string> text = codec_->decode({&id, 1});
      if (!text) return text.error();
      Result<std::vector<TokenId>> back = codec_->encode(*text);
      if (!back) return back.error();
      if (*back == std::vector<TokenId>{id}) fill_ids_.push_back(id);
    }
  }
  if (fill_ids_.empty()) fill_ids_ = allowed_ids_;
  return {};
}

int64_t PromptWriter::without_added(int64_t num_tokens, bool sends_token_ids) const {
  if (sends_token_ids) return num_tokens;
  return std::max<int64_t>(num_tokens - static_cast<int64_t>(codec_->num_added_tokens()), 0);
}

Result<PlannedRequest> PromptWriter::plan(CountedText text, bool sends_token_ids) const {
  PlannedRequest request;
  if (sends_token_ids) {
    Result<std::vector<TokenId>> ids = codec_->encode(text.text);
    if (!ids) return ids.error();
    request.num_prompt_tokens = static_cast<int64_t>(ids->size());
    request.prompt = *std::move(ids);
  } else {
    request.num_prompt_tokens = text.num_tokens + static_cast<int64_t>(codec_->num_added_tokens());
    request.prompt = std::move(text.text);
  }
  return request;
}

Result<int64_t> PromptWriter::count(std::string_view text) const {
  Result<std::vector<TokenId>> ids = codec_->encode(text);
  if (!ids) return ids.error();
  return static_cast<int64_t>(ids->size());
}

// Place 0 may be the start of the text, which not every word can be; the spelling comes behind it.
size_t PromptWriter::word_at(const RandomRun& run, int64_t place) const {
  const size_t spelled = static_cast<size_t>(place) - 1;
  if (place > 0 && spelled < words_.num_digits()) return words_.digit(run.key, spelled);
  return random_bits(run.key, static_cast<uint64_t>(place)) % words_.size();
}

void PromptWriter::append_words(const RandomRun& run, int64_t begin, std::string& text) const {
  for (int64_t i = begin; i < run.num_tokens; ++i) text += words_.word(word_at(run, i));
}

int64_t PromptWriter::num_telling_tokens() const {
  constexpr int64_t kOfIds = 12;  // 40 tokens to choose from are enough
  return words_.is_empty() ? kOfIds : static_cast<int64_t>(words_.num_digits()) + 1;
}

// `num_words` of them in all: fewer than the runs say, or more of the last.
std::string PromptWriter::text_of(
    std::span<const RandomRun> runs, int64_t num_words, bool is_continued
) const {
  constexpr size_t kWordSize = 8;  // with its space, and a little over the mean
  std::string text;
  text.reserve(static_cast<size_t>(num_words) * kWordSize);
  for (size_t i = 0; i < runs.size() && num_words > 0; ++i) {
    RandomRun run = runs[i];
    if (i + 1 == runs.size() || run.num_tokens > num_words) run.num_tokens = num_words;
    num_words -= run.num_tokens;
    int64_t begin = 0;
    if (text.empty() && run.num_tokens > 0) {
      const std::string_view start =
          words_.start(random_bits(run.key, kStartSalt) % words_.num_starts());
      if (is_continued && !start.starts_with(' ')) text += ' ';
      text += start;
      begin = 1;
    }
    append_words(run, begin, text);
  }
  return text;
}

// For vocabularies without words.
std::vector<TokenId> PromptWriter::ids_of(std::span<const RandomRun> runs) const {
  std::vector<TokenId> ids;
  const size_t num_ids = fill_ids_.size();
  for (const RandomRun& run : runs) {
    uint64_t left = run.key;
    for (int64_t i = 0; i < run.num_tokens; ++i) {
      const uint64_t drawn = left > 0 ? left : random_bits(run.key, static_cast<uint64_t>(i));
      ids.push_back(fill_ids_[drawn % num_ids]);
      left = num_ids > 1 ? left / num_ids : 0;
    }
  }
  return ids;
}

Result<CountedText> PromptWriter::write(std::span<const RandomRun> runs, bool is_continued) const {
  int64_t target = 0;
  for (const RandomRun& run : runs) {
    CHECK(run.num_tokens >= 0, "a run of fewer than no tokens");
    target += run.num_tokens;
  }
  CHECK(target <= kPromptTokensMax, "a prompt beyond its limit");
  if (target == 0) return CountedText{};
  if (words_.is_empty()) return fit(ids_of(runs), target, key_of(runs.back().key, kFillSalt));

  std::optional<CountedText> best;
  int64_t num_words = target;
  for (int round = 0; round < kRoundsMax; ++round) {
    CountedText found{text_of(runs, num_words, is_continued), 0};
    Result<int64_t> num_tokens = count(found.text);
    if (!num_tokens) return num_tokens.error();
    found.num_tokens = *num_tokens;
    if (found.num_tokens == target) return found;
    keep_closer(found, target, best);
    num_words = std::clamp<int64_t>(num_words + target - found.num_tokens, 1, 2 * target);
  }
  return *std::move(best);
}

Result<CountedText> PromptWriter::fill(std::string text, int64_t num_tokens, uint64_t key) const {
  // Half a character at the end is written as a mark that is several tokens.
  while (text.ends_with(kReplacementCharacter)) {
    text.resize(text.size() - kReplacementCharacter.size());
  }
  Result<int64_t> there = count(text);
  if (!there) return there.error();
  const RandomRun added{key, std::max<int64_t>(num_tokens - *there, 0)};
  if (words_.is_empty()) {
    Result<std::string> tail = codec_->decode(ids_of({&added, 1}));
    if (!tail) return tail.error();
    text += *tail;
  } else if (text.empty()) {
    text = text_of({&added, 1}, added.num_tokens, false);
  } else {
    append_words(added, 0, text);
  }
  Result<int64_t> found = count(text);
  if (!found) return found.error();
  return CountedText{std::move(text), *found};
}

Result<CountedText> PromptWriter::fit(std::vector<TokenId> ids, int64_t num_tokens, uint64_t key)
    const {
  const size_t target = static_cast<size_t>(num_tokens);
  std::optional<CountedText> best;
  for (int round = 0; round < kRoundsMax; ++round) {
    Result<std::string> text = codec_->decode(ids);
    if (!text) return text.error();
    Result<std::vector<TokenId>> back = codec_->encode(*text);
    if (!back) return back.error();
    CountedText found{*std::move(text), static_cast<int64_t>(back->size())};
    if (found.num_tokens == num_tokens) return found;
    keep_closer(found, num_tokens, best);
    ids = *std::move(back);
    if (ids.size() >= target && round < kCutRounds) {
      ids.resize(target);
      continue;
    }
    // The end may grow together with what follows it, so the cut moves on.
    const size_t margin = ids.size() < target ? 0 : size_t{4} << (round % 4);
    ids.resize(std::min(ids.size(), target - std::min(margin, target)));
    Result<std::string> kept = codec_->decode(ids);
    if (!kept) return kept.error();
    const uint64_t fill_key = key_of(key, static_cast<uint64_t>(round));
    Result<CountedText> filled = fill(*std::move(kept), num_tokens, fill_key);
    if (!filled || filled->num_tokens == num_tokens) return filled;
    keep_closer(*filled, num_tokens, best);
    Result<std::vector<TokenId>> filled_ids = codec_->encode(filled->text);
    if (!filled_ids) return filled_ids.error();
    ids = *std::move(filled_ids);
  }
  return *std::move(best);
}

}  // namespace millrace::bench
