// tokenizer.json as a whole: the model, the added tokens, and the order of the parts.
#include <array>
#include <map>
#include <set>

#include "text/json_node.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json_steps.h"
#include "text/tokenizer_parts.h"

namespace millrace {
namespace {

Result<void> read_vocabulary(const JsonNode& model, BpeConfig& config) {
  Result<JsonNode> node = model.require("vocab");
  if (!node) return node.error();
  Result<const json::object*> entries = node->object();
  if (!entries) return entries.error();
  config.tokens.reserve((*entries)->size());
  for (const auto& [text, id] : **entries) {
    const int64_t* value = id.if_int64();
    if (value == nullptr || *value < 0 || *value > kTokenIdMax) {
      return node->error(fmt::format(
          "gives \"{}\" an id that is not an integer from 0 to {}",
          std::string_view(text).substr(0, 60),
          kTokenIdMax
      ));
    }
    config.tokens.push_back({std::string_view(text), static_cast<TokenId>(*value)});
  }
  return {};
}

// "left right", or ["left", "right"].
Result<BpeMerge> read_merge(const JsonNode& merges, size_t i) {
  const json::value& value = merges.value().get_array()[i];
  BpeMerge merge{.left = {}, .right = {}, .rank = static_cast<uint32_t>(i)};
  if (const json::string* text = value.if_string()) {
    const std::string_view both(*text);
    const size_t space = both.find(' ');
    if (space != std::string_view::npos && both.find(' ', space + 1) == std::string_view::npos) {
      merge.left = both.substr(0, space);
      merge.right = both.substr(space + 1);
      return merge;
    }
  } else if (const json::array* pair = value.if_array(); pair != nullptr && pair->size() == 2 &&
                                                         (*pair)[0].is_string() &&
                                                         (*pair)[1].is_string()) {
    merge.left = (*pair)[0].get_string();
    merge.right = (*pair)[1].get_string();
    return merge;
  }
  return merges.element(i).error("is not a pair of strings");
}

Result<void> read_merges(const JsonNode& model, BpeConfig& config) {
  Result<JsonNode> node = model.require("merges");
  if (!node) return node.error();
  Result<const json::array*> merges = node->array();
  if (!merges) return merges.error();
  if ((*merges)->size() >= UINT32_MAX) return node->error("is too long");
  config.merges.reserve((*merges)->size());
  for (size_t i = 0; i < (*merges)->size(); ++i) {
    // Old merges.txt files were carried over with their first line.
    const json::string* text = (**merges)[i].if_string();
    if (text != nullptr && std::string_view(*text).starts_with("#version")) continue;
    Result<BpeMerge> merge = read_merge(*node, i);
    if (!merge) return merge.error();
    config.merges.push_back(*merge);
  }
  return {};
}

Result<void> refuse_dropout(const JsonNode& model) {
  const std::optional<JsonNode> dropout = model.member("dropout");
  if (!dropout) return {};
  const json::value& value = dropout->value();
  const bool is_zero = value.is_number() && value.to_number<double>() == 0.0;
  if (is_zero) return {};
  return dropout->unsupported_here("is not zero: encoding would be random");
}

Result<BpeConfig> read_model(const JsonNode& model) {
  // Files of before 2020 leave the type out where the model is BPE.
  if (const std::optional<JsonNode> type = model.member("type")) {
    Result<std::string_view> name = type->string();
    if (!name) return name.error();
    if (*name != "BPE") {
      return model.unsupported_here(
          fmt::format("is of the type \"{}\", which is not offered", name->substr(0, 60))
      );
    }
  }
  BpeConfig config;
  Result<void> deterministic = refuse_dropout(model);
  if (!deterministic) return deterministic.error();
  for (const auto& [name, target] :
       {std::pair{"fuse_unk", &config.fuses_unknown},
        std::pair{"byte_fallback", &config.has_byte_fallback},
        std::pair{"ignore_merges", &config.ignores_merges}}) {
    Result<bool> flag = model.bool_member(name, false);
    if (!flag) return flag.error();
    *target = *flag;
  }
  for (const auto& [name, target] :
       {std::pair{"continuing_subword_prefix", &config.continuing_prefix},
        std::pair{"end_of_word_suffix", &config.end_of_word_suffix}}) {
    if (!model.member(name)) continue;
    Result<std::string> text = model.string_member(name);
    if (!text) return text.error();
    *target = *std::move(text);
  }
  if (model.member("unk_token")) {
    Result<std::string> text = model.string_member("unk_token");
    if (!text) return text.error();
    config.unknown_token = *std::move(text);
  }
  Result<void> vocabulary = read_vocabulary(model, config);
  if (!vocabulary) return vocabulary.error();
  Result<void> merges = read_merges(model, config);
  if (!merges) return merges.error();
  return config;
}

Result<AddedToken> read_added_token(const JsonNode& node) {
  const Result<JsonNode> id = node.require("id");
  if (!id) return id.error();
  const Result<int64_t> value = id->integer(0, kTokenIdMax);
  if (!value) return value.error();
  Result<AddedToken> token = read_token_content(node);
  if (token) token->id = static_cast<TokenId>(*value);
  return token;
}

Result<std::vector<AddedToken>> read_added_tokens(const JsonNode& document) {
  std::vector<AddedToken> tokens;
  const std::optional<JsonNode> node = document.member("added_tokens");
  if (!node) return tokens;
  Result<const json::array*> elements = node->array();
  if (!elements) return elements.error();
  for (size_t i = 0; i < (*elements)->size(); ++i) {
    Result<AddedToken> token = read_added_token(node->element(i));
    if (!token) return token.error();
    tokens.push_back(*std::move(token));
  }
  return tokens;
}

// Reads the optional component `name` into `target`.
template <class Part>
Result<void> read_part(
    const JsonNode& document, const char* name, Result<Part> (*read)(const JsonNode&), Part& target
) {
  const std::optional<JsonNode> node = document.member(name);
  if (!node) return {};
  Result<Part> part = read(*node);
  if (!part) return part.error();
  target = *std::move(part);
  return {};
}

Result<TokenizerParts> read_parts(const JsonNode& document) {
  TokenizerParts parts;
  Result<JsonNode> model = document.require("model");
  if (!model) return model.error();
  Result<BpeConfig> config = read_model(*model);
  if (!config) return config.error();
  parts.model = *std::move(config);
  Result<std::vector<AddedToken>> added = read_added_tokens(document);
  if (!added) return added.error();
  parts.added_tokens = *std::move(added);
  const std::array done = {
      read_part(document, "normalizer", read_normalizer, parts.normalizer),
      read_part(document, "pre_tokenizer", read_pre_tokenizer, parts.pre_tokenizer),
      read_part(document, "post_processor", read_post_processor, parts.post_processor),
      read_part(document, "decoder", read_decoder, parts.decoder),
  };
  for (const Result<void>& part : done) {
    if (!part) return part.error();
  }
  return parts;
}

// Adds listed tokens that there are not: by the id that the vocabulary has, or the list, or the
// next one.
Result<void> append_listed(std::span<const ListedToken> listed, TokenizerParts& parts) {
  std::set<std::string_view> known;
  for (const AddedToken& token : parts.added_tokens) known.insert(token.content);
  std::vector<const ListedToken*> missing;
  for (const ListedToken& one : listed) {
    const std::string_view content = one.token.content;
    if (!content.empty() && known.insert(content).second) missing.push_back(&one);
  }
  if (missing.empty()) return {};
  std::map<std::string_view, TokenId> vocabulary;
  std::set<TokenId> taken;
  for (const auto& [text, id] : parts.model.tokens) {
    vocabulary.emplace(text, id);
    taken.insert(id);
  }
  for (const AddedToken& token : parts.added_tokens) taken.insert(token.id);
  for (const ListedToken* const one : missing) {
    AddedToken token = one->token;
    const TokenId next = taken.empty() ? 0 : *taken.rbegin() + 1;
    token.id = one->id.value_or(next);
    if (const auto found = vocabulary.find(token.content); found != vocabulary.end()) {
      token.id = found->second;
    } else if (!taken.insert(token.id).second) {
      return invalid_argument(fmt::format(
          "{} gives \"{}\" the id {}, which is another token's",
          one->file,
          std::string_view(token.content).substr(0, 60),
          token.id
      ));
    }
    parts.added_tokens.push_back(std::move(token));
  }
  return {};
}

}  // namespace

Result<AddedToken> read_token_content(const JsonNode& node) {
  AddedToken token;
  Result<std::string> content = node.string_member("content");
  if (!content) return content.error();
  token.content = *std::move(content);
  for (const auto& [name, target] :
       {std::pair{"single_word", &token.single_word},
        std::pair{"lstrip", &token.lstrip},
        std::pair{"rstrip", &token.rstrip},
        std::pair{"normalized", &token.normalized},
        std::pair{"special", &token.special}}) {
    Result<bool> flag = node.bool_member(name, false);
    if (!flag) return flag.error();
    *target = *flag;
  }
  return token;
}

Result<Tokenizer> Tokenizer::from_json(
    std::string_view tokenizer_json, std::span<const ListedToken> listed
) {
  // The reference takes the last of equal keys, and so does the parser; looking for duplicates
  // among 150,000 tokens would double the time to load.
  Result<json::value> document = parse_json(tokenizer_json, {.allow_duplicate_keys = true});
  if (!document) return document.error();
  const JsonNode root(*document, "");
  if (const std::optional<JsonNode> version = root.member("version")) {
    Result<std::string_view> text = version->string();
    if (!text) return text.error();
    if (*text != "1.0") return version->unsupported_here("is not \"1.0\"");
  }
  Result<TokenizerParts> parts = read_parts(root);
  if (!parts) return parts.error();
  if (Result<void> done = append_listed(listed, *parts); !done) return done.error();
  return TokenizerAssembler::assemble(*std::move(parts));
}

}  // namespace millrace
