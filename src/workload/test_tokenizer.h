// Tokenizers for tests: a tiny one that is made here, and the published ones where they are.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"
#include "workload/dataset.h"
#include "workload/token_codec.h"

namespace millrace::bench {

// A byte-level BPE: all bytes, and a consonant with a vowel as one token, with and without a space
// before it, 210 in all. With `adds_begin`, the token <s> is added before a text.
inline std::string tiny_tokenizer_json(bool adds_begin = false) {
  json::object vocabulary;
  json::array merges;
  const auto add = [&](const std::string& token) { vocabulary[token] = vocabulary.size(); };
  for (int byte = 0; byte < 256; ++byte) {
    std::string character;
    append_byte_characters(std::string(1, static_cast<char>(byte)), character);
    add(character);
  }
  std::string space;
  append_byte_characters(" ", space);
  for (const char consonant : std::string("bcdfghjklmnpqrstvwxyz")) {
    for (const char vowel : std::string("aeiou")) {
      const std::string word{consonant, vowel};
      add(word);
      add(space + word);
      merges.push_back(json::string(std::string{consonant, ' ', vowel}));
      merges.push_back(json::string(space + " " + word));
    }
  }
  const json::value begin = static_cast<int64_t>(vocabulary.size());
  json::object document;
  document["version"] = "1.0";
  document["added_tokens"] = json::array{
      {{"id", begin},
       {"content", "<s>"},
       {"special", true},
       {"single_word", false},
       {"lstrip", false},
       {"rstrip", false},
       {"normalized", false}}};
  document["pre_tokenizer"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  document["decoder"] = {{"type", "ByteLevel"}};
  if (adds_begin) {
    const json::value piece = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
    const json::value text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
    document["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", json::array{piece, text}},
        {"pair", json::array{piece, text}},
        {"special_tokens",
         {{"<s>", {{"id", "<s>"}, {"ids", json::array{begin}}, {"tokens", json::array{"<s>"}}}}}}};
  }
  document["model"] = {
      {"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", std::move(merges)}};
  return json::serialize(document);
}

inline std::shared_ptr<const TokenCodec> tiny_codec(bool adds_begin = false) {
  Result<Tokenizer> made = Tokenizer::from_json(tiny_tokenizer_json(adds_begin));
  EXPECT_TRUE(made) << made.error().message;
  return make_local_codec(std::make_shared<const Tokenizer>(*std::move(made)));
}

// Of ../shared/data under `source_dir`; null where it is not there.
inline std::shared_ptr<const TokenCodec> published_codec(
    const std::string& source_dir, const std::string& name
) {
  const std::string path = source_dir + "/../shared/data/" + name + "/tokenizer.json";
  if (!std::filesystem::exists(path)) return nullptr;
  Result<Tokenizer> made = Tokenizer::from_file(path);
  EXPECT_TRUE(made) << made.error().message;
  return make_local_codec(std::make_shared<const Tokenizer>(*std::move(made)));
}

inline std::unique_ptr<Dataset> must_make(
    const DatasetOptions& options, std::shared_ptr<const TokenCodec> codec
) {
  Result<std::unique_ptr<Dataset>> made = make_dataset(options, std::move(codec));
  EXPECT_TRUE(made) << made.error().message;
  return made ? *std::move(made) : nullptr;
}

// "WHERE: MESSAGE" of the refusal.
inline std::string refusal_of(
    const DatasetOptions& options, std::shared_ptr<const TokenCodec> codec
) {
  const Result<std::unique_ptr<Dataset>> made = make_dataset(options, std::move(codec));
  return made ? "no error" : made.error().where + ": " + made.error().message;
}

inline PlannedSession must_plan(const Dataset& dataset, size_t index) {
  Result<PlannedSession> session = dataset.session(index);
  EXPECT_TRUE(session) << session.error().message;
  return session ? *std::move(session) : PlannedSession{std::vector<PlannedRequest>(1)};
}

inline const std::string& text_of(const PlannedRequest& request) {
  static const std::string kNone;
  const std::string* text = std::get_if<std::string>(&request.prompt);
  EXPECT_NE(text, nullptr) << "a prompt that is no text";
  return text == nullptr ? kNone : *text;
}

// As the server counts: what it adds first, as ids that are no token.
inline std::vector<TokenId> server_ids(const TokenCodec& codec, const PlannedRequest& request) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&request.prompt)) return *ids;
  std::vector<TokenId> ids(codec.num_added_tokens(), -1);
  const Result<std::vector<TokenId>> own = codec.encode(text_of(request));
  EXPECT_TRUE(own);
  ids.insert(ids.end(), own->begin(), own->end());
  return ids;
}

inline size_t num_shared(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  size_t count = 0;
  while (count < std::min(a.size(), b.size()) && a[count] == b[count]) ++count;
  return count;
}

}  // namespace millrace::bench
