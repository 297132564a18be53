// `millrace generate`: answers prompts from the command line or a JSONL file, through the engine.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "batch_run.h"
#include "command_line.h"
#include "commands.h"
#include "failure.h"
#include "generate_input.h"
#include "generate_output.h"
#include "local_time.h"
#include "model_flags.h"
#include "ranks.h"
#include "record_flag.h"
#include "terminal.h"

namespace millrace {
namespace {

struct GenerateFlags {
  ModelFlags model;
  InputFlags input;
  bool stream = false;
  bool json = false;
  std::string record;
};

void add_flags(CommandLine& line, GenerateFlags& flags) {
  add_model_flags(line, flags.model);
  add_tensor_parallel_flag(line, flags.model);
  add_input_flags(line, flags.input);
  line.add_flag("--stream", flags.stream, "print the text as it comes (one prompt)");
  line.add_flag("--json", flags.json, "print one JSON object a line");
  add_record_flag(line, flags.record);
  line.set_footer(
      "Each line of --input is an object with prompt (plain text), prompt_token_ids or messages "
      "(a\n"
      "chat), and any sampling field, which wins over its flag. All prompts run as one batch.\n"
      "\n"
      "Examples:\n"
      "  millrace generate --prompt \"What is the capital of France?\"\n"
      "  millrace generate model.gguf --prompt \"Once upon a time\" --raw --stream --max-tokens "
      "200\n"
      "  millrace generate ~/models/Qwen2-0.5B-Instruct --input prompts.jsonl --json --temperature "
      "0\n"
      "  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"seed\": 7}' |\n"
      "    millrace generate --input -"
  );
}

Result<LocalModel> load(const GenerateFlags& flags, LocalModelOptions options) {
  const auto warn = [](std::string_view message) { print_stderr("{}\n", message); };
  if (auto opened = record_steps(flags.record, warn, options.engine); !opened) {
    return opened.error();
  }
  return load_with_progress(std::move(options));
}

Result<void> generate(const GenerateFlags& flags) {
  const Result<std::vector<InputLine>> lines = read_input(flags.input);
  if (!lines) return lines.error();
  if (flags.stream && (flags.json || lines->size() != 1)) {
    return invalid_argument("--stream takes one prompt, and not --json", "--stream");
  }
  Result<LocalModelOptions> options = model_options_of(flags.model);
  if (!options) return options.error();
  const Result<std::unique_ptr<ProcessGroup>> ranks = start_ranks(*options);
  if (!ranks) return ranks.error();
  Result<LocalModel> model = load(flags, *std::move(options));
  if (!model) return model.error();
  for (const std::string& line : model->start_lines) print_stderr("{}\n", line);

  std::vector<BatchItem> items;
  items.reserve(lines->size());
  const auto now = local_now();
  for (const InputLine& line : *lines) items.push_back(prepare(line, *model, flags.input, now));

  GenerateOutput output(items, {.stream = flags.stream, .json = flags.json});
  const BatchCallbacks callbacks = output.callbacks();
  run_batch(*model, items, callbacks);
  return output.finish();
}

}  // namespace

int run_generate(std::vector<std::string> arguments) {
  GenerateFlags flags;
  CommandLine line(
      "generate", "Answers prompts with a model, through the engine, on this machine."
  );
  add_flags(line, flags);
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  return report("generate", generate(flags));
}

}  // namespace millrace
