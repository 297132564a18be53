#include "text/special_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "text/json_node.h"
#include "text/tokenizer_json_steps.h"

namespace millrace {
namespace {

constexpr size_t kFileBytesMax = size_t{64} << 20;

// A JSON file of a model's folder, which holds an object.
struct FolderFile {
  std::string name;
  json::value object;

  std::optional<JsonNode> member(std::string_view key) const {
    return JsonNode(object, name).member(key);
  }
};

struct FolderFiles {
  FolderFile config{.name = "tokenizer_config.json", .object = {}};
  FolderFile special{.name = "special_tokens_map.json", .object = {}};
  FolderFile added{.name = "added_tokens.json", .object = {}};
};

Result<FolderFiles> read_files(const std::string& model_dir) {
  FolderFiles files;
  for (FolderFile* const file : {&files.config, &files.special, &files.added}) {
    Result<json::object> read = read_folder_object(model_dir + "/" + file->name);
    if (!read) return read.error();
    file->object = *std::move(read);
  }
  return files;
}

// A string, or an object with the content and how it is recognised.
Result<AddedToken> read_special_token(const JsonNode& node) {
  AddedToken token;
  if (const Result<std::string_view> text = node.string()) {
    token.content = *text;
  } else {
    Result<AddedToken> read = read_token_content(node);
    if (!read) return node.error("is neither a string nor an object with a string \"content\"");
    token = *std::move(read);
  }
  token.special = true;
  return token;
}

Result<void> append_special_token(
    const FolderFile& file, const JsonNode& node, std::vector<ListedToken>& listed
) {
  Result<AddedToken> token = read_special_token(node);
  if (!token) return token.error();
  listed.push_back({.token = *std::move(token), .id = std::nullopt, .file = file.name});
  return {};
}

// The special tokens that a file names, by what they are for, and others.
Result<void> append_special_tokens(const FolderFile& file, std::vector<ListedToken>& listed) {
  for (const std::string_view name :
       {"bos_token",
        "eos_token",
        "unk_token",
        "sep_token",
        "pad_token",
        "cls_token",
        "mask_token"}) {
    const std::optional<JsonNode> node = file.member(name);
    if (!node) continue;
    if (auto done = append_special_token(file, *node, listed); !done) return done;
  }
  for (const std::string_view name : {"additional_special_tokens", "extra_special_tokens"}) {
    const std::optional<JsonNode> node = file.member(name);
    // An object gives single tokens names of their own, which are those of other kinds of models.
    if (!node || !node->value().is_array()) continue;
    for (size_t i = 0; i < node->value().get_array().size(); ++i) {
      if (auto done = append_special_token(file, node->element(i), listed); !done) return done;
    }
  }
  return {};
}

// `node`: {"ID": {"content": ..., "lstrip": ..., ...}, ...}.
Result<void> append_decoder(
    const FolderFile& file, const JsonNode& node, std::vector<ListedToken>& listed
) {
  const Result<const json::object*> entries = node.object();
  if (!entries) return entries.error();
  for (const auto& [key, value] : **entries) {
    const JsonNode entry(value, fmt::format("{}.{}", node.path(), std::string_view(key)));
    TokenId id = 0;
    const char* const end = key.data() + key.size();
    const auto parsed = std::from_chars(key.data(), end, id);
    if (parsed.ec != std::errc() || parsed.ptr != end || id < 0 || id > kTokenIdMax) {
      return node.error("has a key that is no token id");
    }
    Result<AddedToken> token = read_token_content(entry);
    if (!token) return token.error();
    listed.push_back({.token = *std::move(token), .id = id, .file = file.name});
  }
  return {};
}

// {"CONTENT": ID, ...}; which are special says `special`.
Result<void> append_added_tokens(
    const FolderFile& file,
    const std::vector<ListedToken>& special,
    std::vector<ListedToken>& listed
) {
  for (const auto& [key, value] : file.object.get_object()) {
    const std::string content(key);
    const JsonNode entry(value, fmt::format("{}.{}", file.name, content.substr(0, 60)));
    const Result<int64_t> id = entry.integer(0, kTokenIdMax);
    if (!id) return id.error();
    AddedToken token{.content = content};
    token.special = std::ranges::any_of(special, [&](const ListedToken& one) {
      return one.token.content == content;
    });
    token.normalized = !token.special;
    listed.push_back({.token = std::move(token), .id = static_cast<TokenId>(*id), .file = file.name}
    );
  }
  return {};
}

Result<SpecialTokens> read_special_tokens(const FolderFiles& files) {
  SpecialTokens tokens;
  const std::pair<const char*, std::optional<std::string>*> places[] = {
      {"bos_token", &tokens.bos},
      {"eos_token", &tokens.eos},
      {"unk_token", &tokens.unk},
      {"pad_token", &tokens.pad},
  };
  for (const auto& [name, place] : places) {
    std::optional<JsonNode> node = files.config.member(name);
    if (!node) node = files.special.member(name);
    if (!node) continue;
    Result<AddedToken> token = read_special_token(*node);
    if (!token) return token.error();
    *place = std::move(token->content);
  }
  return tokens;
}

Result<std::vector<ListedToken>> read_listed_tokens(const FolderFiles& files) {
  // Who writes this writes all tokens there: the other files are older.
  const std::optional<JsonNode> decoder = files.config.member("added_tokens_decoder");
  std::vector<ListedToken> special;
  Result<void> done = append_special_tokens(files.config, special);
  if (done && !decoder) done = append_special_tokens(files.special, special);
  std::vector<ListedToken> listed;
  if (done && decoder) done = append_decoder(files.config, *decoder, listed);
  if (done && !decoder) done = append_added_tokens(files.added, special, listed);
  if (!done) return done.error();
  listed.insert(listed.end(), special.begin(), special.end());
  return listed;
}

}  // namespace

Result<json::object> read_folder_object(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return json::object();
  Result<std::string> text = read_file(path, kFileBytesMax);
  if (!text) return text.error();
  Result<json::value> value = parse_json(*text);
  if (!value) return invalid_argument(path + ": " + value.error().message, path);
  if (!value->is_object()) return invalid_argument(path + ": expected a JSON object", path);
  return std::move(value->get_object());
}

Result<FolderTokens> load_folder_tokens(const std::string& model_dir) {
  const Result<FolderFiles> files = read_files(model_dir);
  if (!files) return files.error();
  Result<SpecialTokens> special = read_special_tokens(*files);
  if (!special) return special.error();
  Result<std::vector<ListedToken>> listed = read_listed_tokens(*files);
  if (!listed) return listed.error();
  return FolderTokens{.special = *std::move(special), .listed = *std::move(listed)};
}

}  // namespace millrace
