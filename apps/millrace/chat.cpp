// `millrace chat`: talks to a model of this process, or to any server with OpenAI's API.
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chat_session.h"
#include "command_line.h"
#include "commands.h"
#include "failure.h"
#include "interrupt_signal.h"
#include "local_chat.h"
#include "model_flags.h"
#include "ranks.h"
#include "remote_chat.h"
#include "sampling_flags.h"
#include "terminal.h"

namespace millrace {
namespace {

// A terminal shows one answer as text.
constexpr std::array<std::string_view, 4> kFieldsLeftOut = {
    "n", "logprobs", "prompt_logprobs", "echo"};

struct ChatFlags {
  ModelFlags model;
  RemoteChatOptions remote;  // url: empty for a model of this process
  std::string system;
  json::object fields;
};

void add_flags(CommandLine& line, ChatFlags& flags) {
  add_model_flags(line, flags.model);
  add_tensor_parallel_flag(line, flags.model);
  const std::vector<Flag> local_flags = line.flags();
  Flag url = line.add(
      "--url", flags.remote.url, "a server to talk to: http://host:8000, https, unix:PATH"
  );
  for (const Flag flag : local_flags) {
    if (!flag.is_named("--seed")) url.excludes(flag);  // that is a field of requests, too
  }
  line.add("--api-key", flags.remote.api_key, "the key that the server asks for, with --url");
  line.add("--model-name", flags.remote.model_name, "the server's model (its first), with --url")
      .needs(url);
  line.add(
          "--ca-file", flags.remote.ca_file, "PEM authorities for https (the system's), with --url"
  )
      .needs(url);
  line.add("--system", flags.system, "the system prompt");
  add_sampling_flags(line, flags.fields, kFieldsLeftOut);
  line.set_footer(
      "Ctrl-C stops an answer, Ctrl-D leaves, /help lists the commands. From a pipe, each line is\n"
      "a turn.\n"
      "\n"
      "Examples:\n"
      "  millrace chat\n"
      "  millrace chat model.gguf --system \"Answer in one sentence.\" --temperature 0.7\n"
      "  millrace chat --url http://127.0.0.1:8000\n"
      "  echo \"What is the capital of France?\" | millrace chat"
  );
}

Result<void> check(const ChatFlags& flags) {
  if (flags.remote.url.empty() || flags.model.model == kDefaultModel) return {};
  return invalid_argument("--url and MODEL exclude each other: see --model-name", "--url");
}

// A model of this machine: how it is loaded, and the processes that share it.
struct LocalSetup {
  LocalModelOptions options;
  std::unique_ptr<ProcessGroup> ranks;
};

// Nothing where a server has the model. REQUIRES: no other thread has been started.
Result<std::optional<LocalSetup>> set_up(const ChatFlags& flags) {
  if (!flags.remote.url.empty()) return std::optional<LocalSetup>();
  Result<LocalModelOptions> options = model_options_of(flags.model);
  if (!options) return options.error();
  Result<std::unique_ptr<ProcessGroup>> ranks = start_ranks(*options);
  if (!ranks) return ranks.error();
  return std::optional<LocalSetup>({*std::move(options), *std::move(ranks)});
}

// `setup`: set_up().
Result<std::unique_ptr<ChatBackend>> make_backend(
    ChatFlags flags, const std::optional<LocalSetup>& setup, bool is_quiet
) {
  if (!setup) {
    flags.remote.fields = std::move(flags.fields);
    if (flags.model.seed) flags.remote.fields["seed"] = *flags.model.seed;
    Result<std::unique_ptr<RemoteChat>> chat = RemoteChat::connect(flags.remote);
    if (!chat) return chat.error();
    return std::unique_ptr<ChatBackend>(*std::move(chat));
  }
  Result<std::unique_ptr<LocalChat>> chat =
      LocalChat::load(setup->options, std::move(flags.fields));
  if (!chat) return chat.error();
  if (!is_quiet) {
    for (const std::string& line : (*chat)->start_lines()) print_stderr("{}\n", line);
  }
  return std::unique_ptr<ChatBackend>(*std::move(chat));
}

Result<void> chat(ChatFlags flags) {
  ChatSessionOptions options;
  options.is_terminal = ::isatty(STDOUT_FILENO) == 1;
  options.is_interactive = options.is_terminal && ::isatty(STDIN_FILENO) == 1;
  options.system = flags.system;
  if (auto checked = check(flags); !checked) return checked.error();
  const Result<std::optional<LocalSetup>> setup = set_up(flags);
  if (!setup) return setup.error();
  std::unique_ptr<InterruptSignal> signal;  // without a person, Ctrl-C ends the process
  if (options.is_interactive) {
    Result<std::unique_ptr<InterruptSignal>> made = InterruptSignal::make();
    if (!made) return made.error();
    signal = *std::move(made);
  }
  Result<std::unique_ptr<ChatBackend>> backend =
      make_backend(std::move(flags), *setup, options.is_interactive);
  if (!backend) return backend.error();
  Result<LineInput> input = LineInput::make(STDIN_FILENO);
  if (!input) return input.error();
  if (options.is_interactive) {
    print_stderr("{}; /help lists the commands\n\n", without_controls((*backend)->model_name()));
  }
  ChatSession session(**backend, *input, std::move(options));
  if (signal) signal->set_handler([&session] { session.interrupt(); });
  Result<void> result = session.run();
  if (signal) signal->set_handler({});
  return result;
}

}  // namespace

int run_chat(std::vector<std::string> arguments) {
  ChatFlags flags;
  CommandLine line("chat", "Talks with a model, on this machine or on a server.");
  add_flags(line, flags);
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  return report("chat", chat(std::move(flags)));
}

}  // namespace millrace
