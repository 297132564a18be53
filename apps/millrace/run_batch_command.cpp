// `millrace run-batch`: answers a file of requests in OpenAI's batch format, without a server; goes
// on where an earlier run was cut short.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "answered_requests.h"
#include "batch_output.h"
#include "command_line.h"
#include "commands.h"
#include "failure.h"
#include "interrupt_signal.h"
#include "jsonl_input.h"
#include "local_time.h"
#include "model_flags.h"
#include "offline_batch.h"
#include "progress_bar.h"
#include "ranks.h"
#include "record_flag.h"
#include "terminal.h"

namespace millrace {
namespace {

constexpr int kExitSomeFailed = 3;
constexpr int kExitInterrupted = 130;
constexpr int64_t kLineBytesMaxDefault = int64_t{64} << 20;  // as a request body of `serve`

struct RunBatchFlags {
  ModelFlags model;
  std::string model_name;  // --model; empty: MODEL
  std::vector<std::string> served_model_names;
  std::string input;
  std::string output;
  BatchOutputOptions existing;
  int32_t max_logprobs = 20;
  std::optional<int64_t> max_line_bytes;
  std::string record;
};

constexpr const char* kFooter =
    "Each line of the input is a request, each line of the output an answer, as in OpenAI's "
    "batches:\n"
    "  {\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", \"body\": "
    "{...}}\n"
    "  {\"id\": \"batch_req_1\", \"custom_id\": \"a\", \"response\": {\"status_code\": 200, "
    "\"request_id\": ...,\n"
    "   \"body\": {...}}, \"error\": null}\n"
    "url: /v1/chat/completions or /v1/completions. body: what `millrace serve` takes, but no "
    "stream.\n"
    "Answers come in the order in which they are finished. A request that is refused has the "
    "status\n"
    "and body of a server's refusal; a line that is no request has an error and no response.\n"
    "\n"
    "Run the same command again after Ctrl-C, kill -9 or a crash: what has an answer in the output "
    "is\n"
    "not repeated, and all else is done. Requests without a seed get theirs from --seed and the "
    "number\n"
    "of their line, so that being interrupted changes no answer.\n"
    "\n"
    "Exit code: 0 all answered, 1 the run failed, 2 wrong command line, 3 all answered and some of "
    "them\n"
    "with an error, 130 stopped by SIGINT or SIGTERM.\n"
    "\n"
    "Example:\n"
    "  echo '{\"custom_id\": \"hi\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", "
    "\"body\":"
    " {\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}}' > requests.jsonl\n"
    "  millrace run-batch -i requests.jsonl -o results.jsonl --model smollm2";

void add_flags(CommandLine& line, RunBatchFlags& flags) {
  line.add("--input-file,-i", flags.input, "file of requests, one a line; - is stdin");
  line.add("--output-file,-o", flags.output, "file that answers are appended to; - is stdout");
  line.add("--model", flags.model_name, "the same as MODEL");
  line.add_flag("--overwrite", flags.existing.overwrite, "begin anew, whatever the output holds");
  line.add_flag(
      "--retry-failed",
      flags.existing.retry_failed,
      "do again what an earlier run answered with an error"
  );
  add_model_flags(line, flags.model);
  add_tensor_parallel_flag(line, flags.model);
  line.add_callback(
      "--served-model-name",
      [&flags](const std::string& name) -> Result<void> {
        if (name.empty()) return invalid_argument("must not be empty");
        flags.served_model_names.push_back(name);
        return {};
      },
      "name that requests may give the model (MODEL); may be given several times"
  );
  line.add("--max-logprobs", flags.max_logprobs, "most logprobs that a request may ask for");
  line.add_size("--max-line-bytes", flags.max_line_bytes, "longest line of the input (64M)");
  add_record_flag(line, flags.record);
  line.set_footer(kFooter);
}

Result<void> check(RunBatchFlags& flags) {
  if (flags.input.empty()) return invalid_argument("give --input-file FILE.jsonl", "--input-file");
  if (flags.output.empty()) {
    return invalid_argument("give --output-file FILE.jsonl", "--output-file");
  }
  if (flags.max_logprobs < 0 || flags.max_logprobs > 1024) {
    return invalid_argument(
        fmt::format("--max-logprobs must be 0 to 1024, got '{}'", flags.max_logprobs),
        "--max-logprobs"
    );
  }
  if (!flags.model_name.empty()) {
    if (flags.model.model != kDefaultModel && flags.model.model != flags.model_name) {
      return invalid_argument("give either MODEL or --model", "--model");
    }
    flags.model.model = flags.model_name;
  }
  if (flags.served_model_names.empty()) flags.served_model_names.push_back(flags.model.model);
  return {};
}

Result<LocalModel> load(const RunBatchFlags& flags, LocalModelOptions options) {
  options.engine.logprobs_max = flags.max_logprobs;
  const auto warn = [](std::string_view message) { print_stderr("{}\n", message); };
  if (auto opened = record_steps(flags.record, warn, options.engine); !opened) {
    return opened.error();
  }
  return load_with_progress(std::move(options));
}

double tokens_per_second(const BatchProgress& progress) {
  const double seconds = to_seconds(progress.duration);
  return seconds > 0.0 ? static_cast<double>(progress.num_output_tokens) / seconds : 0.0;
}

void show(ProgressBar& bar, const BatchProgress& progress, std::optional<uint64_t> num_bytes) {
  if (!bar.is_visible()) return;
  std::optional<double> fraction;
  if (num_bytes && *num_bytes > 0) {
    fraction = static_cast<double>(progress.num_input_bytes) / static_cast<double>(*num_bytes);
  }
  const int64_t num_done = progress.num_answered + progress.num_answered_before;
  const int64_t num_failed = progress.num_failed + progress.num_failed_before;
  bar.show(
      fraction,
      fmt::format(
          "{} done, {} failed, {:.0f} tokens/s", num_done, num_failed, tokens_per_second(progress)
      )
  );
}

void print_summary(const BatchProgress& progress, const BatchOutput& output) {
  std::string before;
  if (const int64_t count = progress.num_answered_before + progress.num_failed_before; count > 0) {
    before = fmt::format(", {} had an answer already", count);
    if (progress.num_failed_before > 0) {
      before += fmt::format(" ({} an error)", progress.num_failed_before);
    }
  }
  print_stderr(
      "{} answered, {} failed{}; {} prompt and {} output tokens in {:.2f} s ({:.1f} tokens/s)\n",
      progress.num_answered,
      progress.num_failed,
      before,
      progress.num_prompt_tokens,
      progress.num_output_tokens,
      to_seconds(progress.duration),
      tokens_per_second(progress)
  );
  if (!progress.is_interrupted) return;
  print_stderr(
      "stopped: {}\n",
      output.is_file() ? "run the same command again to go on" : "what was under way has no answer"
  );
}

// The exit code.
Result<int> run_batch_command(RunBatchFlags& flags) {
  if (auto checked = check(flags); !checked) return checked.error();
  Result<LocalModelOptions> model_options = model_options_of(flags.model);
  if (!model_options) return model_options.error();
  const Result<std::unique_ptr<ProcessGroup>> ranks = start_ranks(*model_options);
  if (!ranks) return ranks.error();
  Result<std::unique_ptr<InterruptSignal>> signals = InterruptSignal::make({SIGINT, SIGTERM});
  if (!signals) return signals.error();
  const auto line_bytes_max =
      static_cast<size_t>(std::max<int64_t>(flags.max_line_bytes.value_or(kLineBytesMaxDefault), 1)
      );
  Result<JsonlInput> input = JsonlInput::open(flags.input, line_bytes_max);
  if (!input) return input.error();
  if (input->is_same_file(flags.output)) {
    return invalid_argument("input and output are the same file", "--output-file");
  }
  AnsweredRequests answered;
  Result<BatchOutput> output = BatchOutput::open(flags.output, flags.existing, answered);
  if (!output) return output.error();
  if (const size_t count = answered.num_answered() + answered.num_failed(); count > 0) {
    print_stderr("{} has {} answers already; going on\n", output->name(), count);
  }
  Result<LocalModel> model = load(flags, *std::move(model_options));
  if (!model) return model.error();
  for (const std::string& line : model->start_lines) print_stderr("{}\n", line);

  std::optional<ProgressBar> bar("answering");
  const OfflineBatchOptions options{
      .model_names = flags.served_model_names,
      // As many wait as run, so that the engine is full also while answers are written.
      .num_requests_at_once = 2 * static_cast<size_t>(flags.model.max_num_seqs),
      .seed = flags.model.seed.value_or(0),
      .local_now = local_now,
      .on_progress = [&](const BatchProgress& progress
                     ) { show(*bar, progress, input->file_bytes()); },
  };
  std::stop_source stop;
  (*signals)->set_handler([&stop] { stop.request_stop(); });
  const Result<BatchProgress> progress =
      run_offline_batch(*model, *input, *output, answered, options, stop.get_token());
  (*signals)->set_handler({});
  bar.reset();
  if (!progress) return progress.error();
  print_summary(*progress, *output);
  if (progress->is_interrupted) return kExitInterrupted;
  return progress->num_failed + progress->num_failed_before > 0 ? kExitSomeFailed : 0;
}

}  // namespace

int run_run_batch(std::vector<std::string> arguments) {
  RunBatchFlags flags;
  CommandLine line("run-batch", "Answers a file of requests in OpenAI's batch format.");
  add_flags(line, flags);
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  const Result<int> exit_code = run_batch_command(flags);
  if (exit_code) return *exit_code;
  return report("run-batch", exit_code.error());
}

}  // namespace millrace
