// A GGUF vocabulary as the parts of a tokenizer: what the file leaves out follows from the names of
// its model and pre-tokenizer, as the authors of those models wrote it in their tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

namespace millrace {
namespace {

// tokenizer.ggml.token_type. Source: GGUF specification.
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

constexpr std::string_view kSpaceCharacter = "\xE2\x96\x81";  // U+2581

Error at(std::string_view key, std::string_view problem) {
  return invalid_argument(fmt::format("tokenizer.ggml.{} {}", key, problem), std::string(key));
}

TokenType type_of(const GgufVocabulary& vocabulary, size_t id) {
  if (vocabulary.token_types.empty()) return TokenType::kNormal;
  return static_cast<TokenType>(vocabulary.token_types[id]);
}

// What a pre-tokenizer name stands for.
struct PreTokenization {
  bool splits_digits = false;  // each digit is a word of its own, before the pattern
  KnownPattern pattern = KnownPattern::kGpt2;
  bool normalizes = false;  // to NFC
  bool ignores_merges = false;
  bool adds_bos = false;  // where the file does not say, and names a begin-of-text token
};

std::optional<PreTokenization> find_pre_tokenization(std::string_view name) {
  constexpr PreTokenization kGpt2{};
  constexpr PreTokenization kSmolLm{.splits_digits = true};
  constexpr PreTokenization kLlama3{
      .pattern = KnownPattern::kLlama3, .ignores_merges = true, .adds_bos = true};
  constexpr PreTokenization kQwen2{.pattern = KnownPattern::kQwen2, .normalizes = true};
  constexpr PreTokenization kQwen35{.pattern = KnownPattern::kQwen35, .normalizes = true};
  constexpr std::array<std::pair<std::string_view, PreTokenization>, 11> kNames = {{
      {"", kGpt2},
      {"default", kGpt2},
      {"gpt-2", kGpt2},
      {"smollm", kSmolLm},
      {"starcoder", kSmolLm},
      {"llama-bpe", kLlama3},
      {"llama3", kLlama3},
      {"llama-v3", kLlama3},
      {"qwen2", kQwen2},
      {"deepseek-r1-qwen", kQwen2},
      {"qwen35", kQwen35},
  }};
  for (const auto& [known, pre] : kNames) {
    if (name == known) return pre;
  }
  return std::nullopt;
}

Result<void> check_vocabulary(const GgufVocabulary& vocabulary) {
  const size_t num_tokens = vocabulary.tokens.size();
  if (num_tokens == 0 || num_tokens > static_cast<size_t>(kTokenIdMax) + 1) {
    return at("tokens", fmt::format("has {} entries, expected 1 to {}", num_tokens, kTokenIdMax));
  }
  for (size_t id = 0; id < num_tokens; ++id) {
    if (is_valid_utf8(vocabulary.tokens[id])) continue;
    return at("tokens", fmt::format("has an entry {} that is not UTF-8", id));
  }
  for (const auto& [key, size] :
       {std::pair{"scores", vocabulary.scores.size()},
        std::pair{"token_type", vocabulary.token_types.size()}}) {
    if (size == 0 || size == num_tokens) continue;
    return at(key, fmt::format("has {} entries for {} tokens", size, num_tokens));
  }
  for (const auto& [key, id] :
       {std::pair{"bos_token_id", vocabulary.bos},
        std::pair{"eos_token_id", vocabulary.eos},
        std::pair{"unknown_token_id", vocabulary.unknown},
        std::pair{"padding_token_id", vocabulary.padding}}) {
    if (!id || (*id >= 0 && static_cast<size_t>(*id) < num_tokens)) continue;
    return at(key, fmt::format("is {}, which is not one of {} tokens", *id, num_tokens));
  }
  return {};
}

std::vector<AddedToken> added_tokens_of(const GgufVocabulary& vocabulary) {
  std::vector<AddedToken> added;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const TokenType type = type_of(vocabulary, id);
    const bool is_special = type == TokenType::kControl || type == TokenType::kUnknown;
    if (!is_special && type != TokenType::kUserDefined) continue;
    added.push_back(
        {.id = static_cast<TokenId>(id), .content = vocabulary.tokens[id], .special = is_special}
    );
  }
  return added;
}

void append_tokens(const GgufVocabulary& vocabulary, TokenizerParts& parts) {
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    parts.model.tokens.push_back({vocabulary.tokens[id], static_cast<TokenId>(id)});
  }
}

// `adds_bos` counts where the file does not say.
Result<PostProcessor> post_processor_of(const GgufVocabulary& vocabulary, bool adds_bos) {
  PostProcessor post;
  if (vocabulary.add_bos.value_or(adds_bos && vocabulary.bos)) {
    if (!vocabulary.bos) return at("add_bos_token", "is set without a bos_token_id");
    post.before.push_back(*vocabulary.bos);
  }
  if (vocabulary.add_eos.value_or(false)) {
    if (!vocabulary.eos) return at("add_eos_token", "is set without an eos_token_id");
    post.after.push_back(*vocabulary.eos);
  }
  return post;
}

Result<TokenizerParts> gpt2_parts(const GgufVocabulary& vocabulary) {
  if (vocabulary.merges.empty()) return at("merges", "is missing; \"gpt2\" merges by them");
  const std::optional<PreTokenization> pre = find_pre_tokenization(vocabulary.pre);
  if (!pre) {
    return unsupported(
        fmt::format(
            "tokenizer.ggml.pre is \"{}\", which is not offered", vocabulary.pre.substr(0, 60)
        ),
        "pre"
    );
  }
  TokenizerParts parts;
  std::vector<PreTokenizerStep> steps;
  if (pre->splits_digits) steps.push_back(ClassSplitStep{CodePointClass::kNumeric});
  steps.push_back(SplitStep{.pattern = TextPattern(pre->pattern)});
  steps.push_back(ByteLevelStep{.add_prefix_space = false, .use_regex = false});
  parts.pre_tokenizer = PreTokenizer(std::move(steps));
  if (pre->normalizes) {
    std::vector<NormalizerStep> normalizer;
    normalizer.push_back(NormalizationForm::kNfc);
    parts.normalizer = Normalizer(std::move(normalizer));
  }
  parts.model.ignores_merges = pre->ignores_merges;
  std::vector<DecoderStep> decoder;
  decoder.push_back(DecodeByteLevel{});
  parts.decoder = TextDecoder(std::move(decoder));
  append_tokens(vocabulary, parts);
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const std::string_view merge = vocabulary.merges[i];
    // A half may begin with a space in old files; the halves themselves hold none.
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) {
      return at("merges", fmt::format("has an entry {} that is not a pair", i));
    }
    const auto rank = static_cast<uint32_t>(i);
    parts.model.merges.push_back({merge.substr(0, space), merge.substr(space + 1), rank});
  }
  Result<PostProcessor> post = post_processor_of(vocabulary, pre->adds_bos);
  if (!post) return post.error();
  parts.post_processor = *std::move(post);
  return parts;
}

// SentencePiece merges whatever makes the token with the best score, leftmost first. So every way
// to cut a token in two tokens is a merge, ranked by the score of the whole.
void append_score_merges(const GgufVocabulary& vocabulary, BpeConfig& model) {
  std::vector<std::pair<std::string_view, size_t>> ids;
  std::vector<float> scores;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const TokenType type = type_of(vocabulary, id);
    if (type != TokenType::kNormal && type != TokenType::kUserDefined) continue;
    ids.emplace_back(vocabulary.tokens[id], id);
    scores.push_back(vocabulary.scores[id]);
  }
  std::sort(ids.begin(), ids.end());
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  const auto is_token = [&](std::string_view text) {
    const auto found = std::lower_bound(ids.begin(), ids.end(), std::pair{text, size_t{0}});
    return found != ids.end() && found->first == text;
  };
  for (const auto& [text, id] : ids) {
    const auto place =
        std::lower_bound(scores.begin(), scores.end(), vocabulary.scores[id], std::greater<>());
    const auto rank = static_cast<uint32_t>(place - scores.begin());
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const std::string_view left = text.substr(0, cut);
      const std::string_view right = text.substr(cut);
      if (is_token(left) && is_token(right)) model.merges.push_back({left, right, rank});
    }
  }
}

Result<TokenizerParts> llama_parts(const GgufVocabulary& vocabulary) {
  constexpr size_t kTokenSizeMax = 1024;  // all cuts of a token are tried
  if (vocabulary.scores.empty()) return at("scores", "is missing; \"llama\" merges by them");
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.scores[id] != vocabulary.scores[id]) {
      return at("scores", fmt::format("has an entry {} that is not a number", id));
    }
    if (vocabulary.tokens[id].size() > kTokenSizeMax) {
      return at("tokens", fmt::format("has an entry {} of more than {} bytes", id, kTokenSizeMax));
    }
  }
  const bool adds_space = vocabulary.add_space_prefix.value_or(true);
  const std::string space(kSpaceCharacter);
  Result<TextPattern> blank = TextPattern::literal(" ");
  Result<TextPattern> mark = TextPattern::literal(space);
  if (!blank || !mark) return blank ? mark.error() : blank.error();
  TokenizerParts parts;
  std::vector<NormalizerStep> normalizer;
  if (adds_space) normalizer.push_back(PrependStep{space});
  normalizer.push_back(ReplaceStep{*std::move(blank), space});
  parts.normalizer = Normalizer(std::move(normalizer));
  std::vector<DecoderStep> decoder;
  decoder.push_back(DecodeReplace{*std::move(mark), " "});
  decoder.push_back(DecodeByteFallback{});
  decoder.push_back(DecodeFuse{});
  if (adds_space) decoder.push_back(DecodeStrip{.content = " ", .num_start = 1, .num_stop = 0});
  parts.decoder = TextDecoder(std::move(decoder));
  parts.model.has_byte_fallback = true;
  parts.model.fuses_unknown = true;
  if (vocabulary.unknown) {
    parts.model.unknown_token = vocabulary.tokens[static_cast<size_t>(*vocabulary.unknown)];
  }
  append_tokens(vocabulary, parts);
  append_score_merges(vocabulary, parts.model);
  Result<PostProcessor> post = post_processor_of(vocabulary, true);
  if (!post) return post.error();
  parts.post_processor = *std::move(post);
  return parts;
}

}  // namespace

Result<Tokenizer> Tokenizer::from_gguf_vocabulary(const GgufVocabulary& vocabulary) {
  Result<void> checked = check_vocabulary(vocabulary);
  if (!checked) return checked.error();
  const bool is_gpt2 = vocabulary.model == "gpt2";
  if (!is_gpt2 && vocabulary.model != "llama") {
    return unsupported(
        fmt::format(
            "tokenizer.ggml.model is \"{}\", expected \"gpt2\" or \"llama\"",
            vocabulary.model.substr(0, 60)
        ),
        "model"
    );
  }
  Result<TokenizerParts> parts = is_gpt2 ? gpt2_parts(vocabulary) : llama_parts(vocabulary);
  if (!parts) return parts.error();
  parts->added_tokens = added_tokens_of(vocabulary);
  return TokenizerAssembler::assemble(*std::move(parts));
}

}  // namespace millrace
