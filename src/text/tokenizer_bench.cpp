// Speed of the tokenizer, in bytes of text a second on one core. Needs ../shared/data for the
// published vocabularies; the source folder is found from this file's own path.
#include <benchmark/benchmark.h>

#include <array>
#include <filesystem>
#include <string>

#include "base/rng.h"
#include "text/tokenizer.h"

namespace millrace {
namespace {

constexpr std::array<std::string_view, 60> kFunctionWords = {
    "the",  "of",   "and",   "to",    "in",      "a",     "is",   "that", "for",  "it",
    "as",   "was",  "with",  "be",    "by",      "on",    "not",  "he",   "this", "are",
    "or",   "his",  "from",  "at",    "which",   "but",   "have", "an",   "had",  "they",
    "you",  "were", "their", "one",   "all",     "we",    "can",  "her",  "has",  "there",
    "been", "if",   "more",  "when",  "will",    "would", "who",  "so",   "no",   "don't",
    "it's", "I'm",  "we'll", "isn't", "they're", "into",  "only", "over", "some", "these"};
constexpr std::array<std::string_view, 72> kStems = {
    "act",    "bank",    "bright", "build",  "care",   "cast",   "chart",  "claim",   "clear",
    "cloud",  "code",    "count",  "cover",  "craft",  "create", "cross",  "develop", "direct",
    "drive",  "earth",   "engine", "equal",  "expect", "farm",   "field",  "form",    "fresh",
    "garden", "grand",   "group",  "guard",  "hand",   "harbor", "head",   "heart",   "help",
    "house",  "improve", "light",  "list",   "load",   "mark",   "mind",   "motion",  "mount",
    "music",  "nation",  "number", "order",  "paint",  "place",  "plant",  "play",    "point",
    "press",  "print",   "quick",  "reason", "river",  "school", "season", "sense",   "shape",
    "solve",  "sound",   "spring", "stand",  "stone",  "table",  "think",  "trust",   "water"};
constexpr std::array<std::string_view, 8> kPrefixes = {
    "", "", "", "un", "re", "pre", "over", "inter"};
constexpr std::array<std::string_view, 20> kSuffixes = {
    "",     "",     "",     "s",   "ed",   "ing",   "er", "ers",  "ly",      "ness",
    "ment", "able", "less", "ful", "ward", "works", "'s", "hood", "ization", "ational"};
constexpr std::array<std::string_view, 8> kEnds = {
    ". ", ", ", ", ", "; ", "? ", ".\n", ".\n\n", " (cf. 3) "};

// English-like text over some seven thousand distinct words, with numbers and punctuation.
std::string english_text(size_t num_bytes) {
  Rng rng(7);
  const auto pick = [&](const auto& list) { return std::string(list[rng.below(list.size())]); };
  std::string text;
  while (text.size() < num_bytes) {
    std::string word;
    const uint64_t kind = rng.below(100);
    if (kind < 45) {
      word = pick(kFunctionWords);
    } else if (kind < 96) {
      word = pick(kPrefixes) + pick(kStems) + pick(kSuffixes);
    } else {
      word = std::to_string(rng.below(100'000));
    }
    if (rng.below(12) == 0 && word[0] >= 'a') word[0] = static_cast<char>(word[0] - 'a' + 'A');
    text += word;
    text += rng.below(8) == 0 ? pick(kEnds) : " ";
  }
  return text;
}

// Chinese-like text: common characters with a full stop here and there.
std::string han_text(size_t num_bytes) {
  Rng rng(8);
  std::string text;
  while (text.size() < num_bytes) {
    const auto c = static_cast<uint32_t>(0x4E00 + rng.below(3000));
    text.push_back(static_cast<char>(0xE0 | (c >> 12)));
    text.push_back(static_cast<char>(0x80 | ((c >> 6) & 0x3F)));
    text.push_back(static_cast<char>(0x80 | (c & 0x3F)));
    if (rng.below(15) == 0) text += "\xE3\x80\x82";
  }
  return text;
}

std::string tokenizer_path(std::string_view model) {
  const std::filesystem::path source = std::filesystem::path(__FILE__).parent_path();
  const auto root = source.parent_path().parent_path().parent_path() / "shared" / "data";
  return (root / model / "tokenizer.json").string();
}

void encode(benchmark::State& state, std::string_view model, const std::string& text) {
  const Result<Tokenizer> tokenizer = Tokenizer::from_file(tokenizer_path(model));
  if (!tokenizer) return state.SkipWithError(tokenizer.error().message.c_str());
  size_t num_tokens = 0;
  for (auto _ : state) {
    num_tokens = tokenizer->encode(text).size();
    benchmark::DoNotOptimize(num_tokens);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["bytes_per_token"] =
      static_cast<double>(text.size()) / static_cast<double>(num_tokens);
}

constexpr size_t kTextSize = 1 << 20;

void BM_EncodeEnglish(benchmark::State& state, std::string_view model) {
  encode(state, model, english_text(kTextSize));
}
void BM_EncodeHan(benchmark::State& state, std::string_view model) {
  encode(state, model, han_text(kTextSize));
}
// One word of the given length: merging must not be quadratic.
void BM_OneWord(benchmark::State& state) {
  Rng rng(9);
  std::string word;
  while (word.size() < static_cast<size_t>(state.range(0))) {
    word.push_back(static_cast<char>('a' + rng.below(12)));
  }
  encode(state, "tokenizers/qwen2.5", word);
}
void BM_Load(benchmark::State& state, std::string_view model) {
  for (auto _ : state) {
    const Result<Tokenizer> tokenizer = Tokenizer::from_file(tokenizer_path(model));
    if (!tokenizer) return state.SkipWithError(tokenizer.error().message.c_str());
  }
}
void BM_Decode(benchmark::State& state, std::string_view model) {
  const Result<Tokenizer> tokenizer = Tokenizer::from_file(tokenizer_path(model));
  if (!tokenizer) return state.SkipWithError(tokenizer.error().message.c_str());
  const std::string text = english_text(kTextSize);
  const std::vector<TokenId> ids = tokenizer->encode(text);
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer->decode(ids, true));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}

BENCHMARK_CAPTURE(BM_EncodeEnglish, qwen2_5, "tokenizers/qwen2.5");
BENCHMARK_CAPTURE(BM_EncodeEnglish, llama3_1, "tokenizers/llama3.1");
BENCHMARK_CAPTURE(BM_EncodeEnglish, smollm2, "tokenizers/smollm2");
BENCHMARK_CAPTURE(BM_EncodeEnglish, stories260k, "models/stories260k");
BENCHMARK_CAPTURE(BM_EncodeHan, qwen2_5, "tokenizers/qwen2.5");
BENCHMARK(BM_OneWord)->RangeMultiplier(4)->Range(16, 1 << 20);
BENCHMARK_CAPTURE(BM_Decode, qwen2_5, "tokenizers/qwen2.5");
BENCHMARK_CAPTURE(BM_Load, qwen2_5, "tokenizers/qwen2.5")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Load, llama3_1, "tokenizers/llama3.1")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_Load, smollm2, "tokenizers/smollm2")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace millrace
