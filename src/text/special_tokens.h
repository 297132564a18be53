// What a model's folder says of its tokens beside tokenizer.json: which of them templates can name,
// and added tokens that older or edited folders list in tokenizer_config.json, added_tokens.json
// and special_tokens_map.json alone. As Hugging Face `transformers`, version 5, reads those files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/added_tokens.h"

namespace millrace {

// The special tokens that a template can name; none: the variable is undefined.
struct SpecialTokens {
  std::optional<std::string> bos;
  std::optional<std::string> eos;
  std::optional<std::string> unk;
  std::optional<std::string> pad;
};

// An added token, whether tokenizer.json has it or not.
struct ListedToken {
  AddedToken token;           // its id is `id`, or unknown
  std::optional<TokenId> id;  // none: the file does not say
  std::string file;           // of the folder
};

struct FolderTokens {
  // Those of tokenizer_config.json, else of special_tokens_map.json, each a string or
  // {"content": ...}.
  SpecialTokens special;
  // `added_tokens_decoder` of tokenizer_config.json, or else added_tokens.json; then special
  // tokens.
  std::vector<ListedToken> listed;
};

// None without the files. An error names the file and the place in it.
Result<FolderTokens> load_folder_tokens(const std::string& model_dir);

// A JSON file of a model's folder; empty without the file.
Result<json::object> read_folder_object(const std::string& path);

}  // namespace millrace
