// `millrace tokenize` and `millrace detokenize`: text to token ids and back.
#include <fmt/format.h>

#include <cstdio>

#include "command_line.h"
#include "commands.h"
#include "failure.h"
#include "json_lines.h"
#include "model_flags.h"
#include "server/model_text.h"
#include "server/prompt.h"

namespace millrace {
namespace {

struct TokenizeFlags {
  ModelFlags model;
  std::string text;
  bool jsonl = false;
  bool without_special_tokens = false;
  bool skip_special_tokens = false;
};

Result<ModelText> load(const ModelFlags& flags) {
  const Result<ModelTextOptions> options = text_options_of(flags);
  if (!options) return options.error();
  return load_model_text(*options);
}

json::array to_array(const std::vector<TokenId>& ids) {
  return json::array(ids.begin(), ids.end());
}

Result<void> tokenize(const TokenizeFlags& flags) {
  if (flags.text.empty() != flags.jsonl) {
    return invalid_argument("give either --text TEXT or --jsonl (strings on stdin)");
  }
  const Result<ModelText> model = load(flags.model);
  if (!model) return model.error();
  const EncodeOptions options{.add_special_tokens = !flags.without_special_tokens};
  if (!flags.jsonl) {
    fmt::print("{}\n", to_json_text(to_array(model->tokenizer.encode(flags.text, options))));
    return {};
  }
  return for_each_json_line([&](const json::value& line) -> Result<json::value> {
    if (!line.is_string()) return invalid_argument("expected a JSON string");
    return json::value(to_array(model->tokenizer.encode(line.get_string(), options)));
  });
}

Result<void> detokenize(const TokenizeFlags& flags) {
  if (flags.text.empty() != flags.jsonl) {
    return invalid_argument("give either --ids '[1, 2]' or --jsonl (arrays on stdin)");
  }
  const Result<ModelText> model = load(flags.model);
  if (!model) return model.error();
  const auto decode = [&](const json::value& line) -> Result<std::string> {
    const Result<std::vector<TokenId>> ids = read_token_ids("ids", line);
    if (!ids) return ids.error();
    for (const TokenId id : *ids) {
      if (static_cast<size_t>(id) < model->tokenizer.vocab_size()) continue;
      return invalid_argument(
          fmt::format("token id {} is not below {}", id, model->tokenizer.vocab_size())
      );
    }
    return model->tokenizer.decode(*ids, flags.skip_special_tokens);
  };
  if (!flags.jsonl) {
    const Result<json::value> line = parse_json(flags.text);
    if (!line) return line.error();
    const Result<std::string> text = decode(*line);
    if (!text) return text.error();
    fmt::print("{}\n", *text);
    return {};
  }
  return for_each_json_line([&](const json::value& line) -> Result<json::value> {
    const Result<std::string> text = decode(line);
    if (!text) return text.error();
    return json::value(*text);
  });
}

}  // namespace

int run_tokenize(std::vector<std::string> arguments) {
  TokenizeFlags flags;
  CommandLine line("tokenize", "Text to token ids.");
  add_text_flags(line, flags.model);
  line.add("--text", flags.text, "the text");
  line.add_flag(
      "--jsonl", flags.jsonl, "a JSON string a line on stdin, an array of ids a line out"
  );
  line.add_flag(
      "--no-special-tokens",
      flags.without_special_tokens,
      "leave out the tokens that the post-processor adds"
  );
  line.set_footer(
      "Examples:\n"
      "  millrace tokenize --text \"Hello, world\"\n"
      "  millrace tokenize ~/models/Qwen2-0.5B --jsonl < strings.jsonl"
  );
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  return report("tokenize", tokenize(flags));
}

int run_detokenize(std::vector<std::string> arguments) {
  TokenizeFlags flags;
  CommandLine line("detokenize", "Token ids to text.");
  add_text_flags(line, flags.model);
  line.add("--ids", flags.text, "a JSON array of token ids");
  line.add_flag(
      "--jsonl", flags.jsonl, "an array of ids a line on stdin, a JSON string a line out"
  );
  line.add_flag("--skip-special-tokens", flags.skip_special_tokens, "leave out special tokens");
  line.set_footer("Example:\n  millrace detokenize --ids '[504, 3575]'");
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  return report("detokenize", detokenize(flags));
}

}  // namespace millrace
