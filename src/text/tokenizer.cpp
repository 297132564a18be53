// The stages in their order: added tokens, normalizer, pre-tokenizer, model, post-processor.
#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "base/check.h"
#include "base/file.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"

namespace millrace {
namespace {

// A text with everything that is not UTF-8 replaced, and the plain ranges moved along.
struct ValidText {
  std::string text;
  std::vector<ByteRange> plain;
};

ValidText replace_invalid(std::string_view text, std::span<const ByteRange> plain) {
  ValidText valid;
  std::vector<size_t> position_of(text.size() + 1);
  size_t pos = 0;
  while (pos < text.size()) {
    const Utf8Sequence sequence = next_utf8_sequence(text.substr(pos));
    const std::string_view part = text.substr(pos, sequence.num_bytes);
    for (size_t i = 0; i < part.size(); ++i) position_of[pos + i] = valid.text.size();
    valid.text.append(
        sequence.kind == Utf8Sequence::Kind::kComplete ? part : kReplacementCharacter
    );
    pos += part.size();
  }
  position_of[text.size()] = valid.text.size();
  for (const ByteRange range : plain) {
    const size_t begin = std::min(range.begin, text.size());
    const size_t end = std::min(range.end, text.size());
    if (begin >= end) continue;
    // A range that ends within a sequence takes all of it in.
    size_t after = end;
    while (after < text.size() && position_of[after] == position_of[end - 1]) ++after;
    valid.plain.push_back({position_of[begin], position_of[after]});
  }
  return valid;
}

// One mark for each byte of text[range]: whether a plain range covers it.
std::string plain_marks(ByteRange range, std::span<const ByteRange> plain) {
  std::string marks(range.end - range.begin, '\0');
  for (const ByteRange stretch : plain) {
    const size_t begin = std::clamp(stretch.begin, range.begin, range.end);
    const size_t end = std::clamp(stretch.end, begin, range.end);
    std::fill_n(marks.begin() + static_cast<std::ptrdiff_t>(begin - range.begin), end - begin, 1);
  }
  return marks;
}

std::vector<ByteRange> ranges_of_marks(std::string_view marks) {
  std::vector<ByteRange> ranges;
  for (size_t i = 0; i < marks.size(); ++i) {
    if (marks[i] == 0) continue;
    if (!ranges.empty() && ranges.back().end == i) {
      ++ranges.back().end;
    } else {
      ranges.push_back({i, i + 1});
    }
  }
  return ranges;
}

}  // namespace

struct Tokenizer::State {
  // What is known of one id; `text` is nullopt for a gap.
  struct TokenInfo {
    std::optional<std::string_view> text;
    std::string_view decoded;
    bool is_special = false;
    bool skips_when_special = false;
  };

  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe model;
  AddedTokens added_tokens;
  StringIdMap added_ids;
  PostProcessor post_processor;
  TextDecoder decoder;
  std::vector<TokenInfo> infos;  // by id; views into `model` and `added_tokens`
  TokenTexts texts;

  void index_tokens();
  void make_texts();
  const TokenInfo* info(TokenId id) const;
};

void Tokenizer::State::index_tokens() {
  size_t id_end = model.id_end();
  for (const AddedToken& token : added_tokens.tokens()) {
    id_end = std::max(id_end, static_cast<size_t>(token.id) + 1);
  }
  infos.resize(id_end);
  for (size_t i = 0; i < model.id_end(); ++i) {
    infos[i].text = model.text(static_cast<TokenId>(i));
    infos[i].decoded = infos[i].text.value_or(std::string_view());
  }
  std::unordered_set<std::string_view> special_contents;
  for (const AddedToken& token : added_tokens.tokens()) {
    if (token.special) special_contents.insert(token.content);
  }
  for (size_t i = 0; i < added_tokens.tokens().size(); ++i) {
    const AddedToken& token = added_tokens.tokens()[i];
    added_ids.insert(token.content, token.id);
    TokenInfo& info = infos[static_cast<size_t>(token.id)];
    info.text = token.content;
    info.decoded = added_tokens.decoded_text(i);
    info.is_special = token.special;
    // The reference compares what it would write with the contents of special tokens, so a special
    // token that the normalizer rewrites is not skipped.
    info.skips_when_special = special_contents.contains(info.decoded);
  }
}

void Tokenizer::State::make_texts() {
  texts = TokenTexts(decoder, infos.size(), [this](TokenId id) {
    const TokenInfo* token = info(id);
    return token == nullptr
               ? std::nullopt
               : std::optional<TokenTexts::Token>(
                     {.decoded = token->decoded, .is_skippable = token->skips_when_special}
                 );
  });
}

const Tokenizer::State::TokenInfo* Tokenizer::State::info(TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) >= infos.size()) return nullptr;
  const TokenInfo& found = infos[static_cast<size_t>(id)];
  return found.text ? &found : nullptr;
}

namespace {

// One call of encode_at_most(). What appends to `ids` gives false where there are more than
// `num_tokens_max` of them, or will be.
class Encoder {
 public:
  Encoder(
      const Normalizer& normalizer,
      const PreTokenizer& pre_tokenizer,
      const Bpe& model,
      const AddedTokens& added_tokens,
      size_t num_tokens_max
  )
      : normalizer_(normalizer),
        pre_tokenizer_(pre_tokenizer),
        model_(model),
        added_tokens_(added_tokens),
        num_tokens_max_(num_tokens_max) {}

  // REQUIRES: `text` is valid UTF-8.
  bool encode(std::string_view text, std::span<const ByteRange> plain, std::vector<TokenId>& ids) {
    const bool carries_marks = added_tokens_.has_normalized_special() && !plain.empty();
    for (const AddedTokenSegment& segment : added_tokens_.split(text, plain, false)) {
      if (segment.id) {
        ids.push_back(*segment.id);
        continue;
      }
      const ByteRange range = segment.range;
      const std::string_view part = text.substr(range.begin, range.end - range.begin);
      const std::string marks = carries_marks ? plain_marks(range, plain) : std::string();
      if (!encode_segment(part, marks, range.begin == 0, ids)) return false;
    }
    return ids.size() <= num_tokens_max_;
  }

 private:
  bool encode_segment(
      std::string_view part, const std::string& marks, bool is_front, std::vector<TokenId>& ids
  ) {
    if (normalizer_.is_identity()) {
      return encode_normalized(part, ranges_of_marks(marks), is_front, ids);
    }
    NormalizedText normalized{.text = std::string(part), .plain_marks = marks};
    normalizer_.apply(normalized);
    is_front = is_front && normalized.keeps_front;
    return encode_normalized(
        normalized.text, ranges_of_marks(normalized.plain_marks), is_front, ids
    );
  }

  bool encode_normalized(
      std::string_view text,
      const std::vector<ByteRange>& plain,
      bool is_front,
      std::vector<TokenId>& ids
  ) {
    for (const AddedTokenSegment& segment : added_tokens_.split(text, plain, true)) {
      if (segment.id) {
        ids.push_back(*segment.id);
        continue;
      }
      const ByteRange range = segment.range;
      const std::string_view part = text.substr(range.begin, range.end - range.begin);
      pre_tokenizer_.split(part, is_front && range.begin == 0, words_);
      for (const ByteRange range_of_word : words_.ranges) {
        if (ids.size() > num_tokens_max_) return false;
        const std::string_view text_of_word =
            words_.text.substr(range_of_word.begin, range_of_word.end - range_of_word.begin);
        if (!model_.encode_word(text_of_word, scratch_, ids, num_tokens_max_ - ids.size())) {
          return false;
        }
      }
    }
    return true;
  }

  const Normalizer& normalizer_;
  const PreTokenizer& pre_tokenizer_;
  const Bpe& model_;
  const AddedTokens& added_tokens_;
  const size_t num_tokens_max_;
  Words words_;
  BpeScratch scratch_;
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> TokenizerAssembler::assemble(TokenizerParts parts) {
  // The first text should not pay for building the table.
  static_cast<void>(CodePointClasses::table());
  auto state = std::make_unique<Tokenizer::State>();
  const bool has_decorations =
      !parts.model.continuing_prefix.empty() || !parts.model.end_of_word_suffix.empty();
  parts.model.reads_bytes = parts.pre_tokenizer.leaves_bytes() && !has_decorations;
  if (parts.pre_tokenizer.leaves_bytes() && has_decorations) {
    parts.pre_tokenizer.write_byte_characters();
  }
  Result<Bpe> model = Bpe::create(parts.model);
  if (!model) return invalid_argument("model: " + model.error().message, "model");
  for (const AddedToken& token : parts.added_tokens) {
    const std::optional<TokenId> known = model->find(token.content);
    const std::optional<std::string_view> holder = model->text(token.id);
    if (token.id < 0 || token.id > kTokenIdMax || (known && known != token.id) ||
        (holder && holder != token.content)) {
      return invalid_argument(
          fmt::format(
              "added_tokens: the id {} of token \"{}\" is out of range or contradicts model.vocab",
              token.id,
              token.content.substr(0, 60)
          ),
          "added_tokens"
      );
    }
  }
  Result<AddedTokens> added = AddedTokens::create(std::move(parts.added_tokens), parts.normalizer);
  if (!added) return invalid_argument("added_tokens: " + added.error().message, "added_tokens");
  state->normalizer = std::move(parts.normalizer);
  state->pre_tokenizer = std::move(parts.pre_tokenizer);
  state->model = *std::move(model);
  state->added_tokens = *std::move(added);
  state->post_processor = std::move(parts.post_processor);
  state->decoder = std::move(parts.decoder);
  state->index_tokens();
  state->make_texts();
  for (const auto* ids : {&state->post_processor.before, &state->post_processor.after}) {
    for (const TokenId id : *ids) {
      if (state->info(id) != nullptr) continue;
      return invalid_argument(
          fmt::format("post_processor: the id {} is no token of the vocabulary", id),
          "post_processor"
      );
    }
  }
  return Tokenizer(std::move(state));
}

Result<Tokenizer> Tokenizer::from_file(
    const std::string& path, std::span<const ListedToken> listed
) {
  // The largest published one has some 35 MB.
  constexpr size_t kFileSizeMax = size_t{256} << 20;
  Result<std::string> text = read_file(path, kFileSizeMax);
  if (!text) return text.error();
  Result<Tokenizer> tokenizer = from_json(*text, listed);
  if (!tokenizer) {
    return Error{tokenizer.error().code, path + ": " + tokenizer.error().message, path};
  }
  return tokenizer;
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return *encode_at_most(std::numeric_limits<size_t>::max(), text, options);
}

std::optional<std::vector<TokenId>> Tokenizer::encode_at_most(
    size_t num_tokens_max, std::string_view text, const EncodeOptions& options
) const {
  std::vector<TokenId> ids;
  const PostProcessor& post = state_->post_processor;
  if (options.add_special_tokens) ids = post.before;
  ids.reserve(ids.size() + std::min(num_tokens_max, text.size() / 3));
  Encoder encoder(
      state_->normalizer, state_->pre_tokenizer, state_->model, state_->added_tokens, num_tokens_max
  );
  bool is_within = false;
  if (is_valid_utf8(text)) {
    is_within = encoder.encode(text, options.plain_text, ids);
  } else {
    const ValidText valid = replace_invalid(text, options.plain_text);
    is_within = encoder.encode(valid.text, valid.plain, ids);
  }
  if (!is_within) return std::nullopt;
  if (options.add_special_tokens) ids.insert(ids.end(), post.after.begin(), post.after.end());
  if (ids.size() > num_tokens_max) return std::nullopt;
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  DecodeStream stream(state_->decoder);
  for (const TokenId id : ids) {
    if (const auto token = decoded_token(id, skip_special_tokens)) stream.push(*token);
  }
  stream.finish();
  return stream.take();
}

std::string Tokenizer::token_bytes(TokenId id) const {
  const auto token = decoded_token(id, false);
  return token ? state_->decoder.token_bytes(*token) : std::string();
}

std::optional<std::string_view> Tokenizer::token_text(TokenId id) const {
  const State::TokenInfo* info = state_->info(id);
  if (info == nullptr) return std::nullopt;
  return info->text;
}

std::optional<TokenId> Tokenizer::token_id(std::string_view text) const {
  const std::optional<TokenId> added = state_->added_ids.find(text);
  return added ? added : state_->model.find(text);
}

size_t Tokenizer::vocab_size() const {
  return state_->infos.size();
}

bool Tokenizer::is_special(TokenId id) const {
  const State::TokenInfo* info = state_->info(id);
  return info != nullptr && info->is_special;
}

const TokenTexts& Tokenizer::texts() const {
  return state_->texts;
}

const TextDecoder& Tokenizer::decoder() const {
  return state_->decoder;
}

std::optional<std::string_view> Tokenizer::decoded_token(TokenId id, bool skip_special_tokens)
    const {
  const State::TokenInfo* info = state_->info(id);
  if (info == nullptr) return std::nullopt;
  if (skip_special_tokens && info->skips_when_special) return std::nullopt;
  return info->decoded;
}

}  // namespace millrace
