// `millrace bench mock`: a server without a model whose times are exact, to try benchmarks on.
#include <fmt/format.h>

#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/commands.h"
#include "command_line.h"
#include "failure.h"
#include "interrupt_signal.h"
#include "loadgen/mock_server.h"
#include "terminal.h"

namespace millrace::bench {
namespace {

struct MockFlags {
  MockOptions options;
  std::string host = "127.0.0.1";
  int32_t port = 8000;
  double ttft_ms = 0.0;
  double itl_ms = 0.0;
  int32_t num_threads = 1;
};

constexpr const char* kFooter =
    "Answers the completions, chat and /generate endpoints; a token is a word. Times are exact, or "
    "vary by a seed.\n"
    "\n"
    "Example:\n"
    "  millrace bench mock --port 9000 --ttft-ms 50 --itl-ms 10 --jitter 0.2 &\n"
    "  millrace bench serve --port 9000 --input-len 32 --output-len 16 --num-prompts 100 "
    "--request-rate 20";

std::chrono::nanoseconds nanos_of_ms(double milliseconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(milliseconds * 1e6));
}

void add_flags(CommandLine& line, MockFlags& flags) {
  MockOptions& options = flags.options;
  line.add("--host", flags.host, "address to listen on (127.0.0.1)");
  line.add("--port", flags.port, "port (8000); 0: any");
  line.add("--model", options.model, "name (mock)");
  line.add("--api-key", options.api_key, "key that clients must show");
  line.add("--seed", options.seed, "of times");
  line.add("--ttft-ms", flags.ttft_ms, "to the first token (0)");
  line.add("--itl-ms", flags.itl_ms, "between tokens (0)");
  line.add("--jitter", options.ttft.jitter, "both vary by this share, 0 to 1 (0)");
  line.add("--tokens-per-chunk", options.tokens_per_chunk, "tokens of an event (1)");
  line.add("--max-concurrency", options.max_concurrency, "more wait their turn");
  line.add("--threads", flags.num_threads, "that serve (1)");
  line.add("--output-share", options.output_share, "of the tokens asked for, that come (1)");
  line.add("--prefix-hit-rate", options.prefix_hit_rate, "of prompt tokens, called cached (0)");
  line.add("--fails-every", options.fails_every, "each so many-th request: HTTP 500");
  line.add("--breaks-every", options.breaks_every, "each so many-th stream: closed in its middle");
  line.add("--malformed-every", options.malformed_every, "each so many-th stream: no JSON");
  line.add("--error-every", options.error_every, "each so many-th stream: an error event");
  line.add("--dies-after", options.dies_after, "so many requests: closes all and listens no more");
  line.set_footer(kFooter);
}

// Until Ctrl-C or SIGTERM.
void wait_for(InterruptSignal& signal) {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_over = false;
  signal.set_handler([&] {
    const std::lock_guard lock(mutex);
    is_over = true;
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return is_over; });
  lock.unlock();
  signal.set_handler({});
}

Result<void> mock(MockFlags& flags) {
  if (flags.port < 0 || flags.port > 65535) {
    return invalid_argument("--port must be 0 to 65535", "--port");
  }
  Result<std::unique_ptr<InterruptSignal>> signal = InterruptSignal::make({SIGINT, SIGTERM});
  if (!signal) return signal.error();
  flags.options.address = fmt::format("{}:{}", flags.host, flags.port);
  flags.options.ttft.mean = nanos_of_ms(flags.ttft_ms);
  flags.options.itl = {.mean = nanos_of_ms(flags.itl_ms), .jitter = flags.options.ttft.jitter};
  flags.options.num_threads = static_cast<size_t>(std::max(flags.num_threads, 1));
  const Result<std::unique_ptr<MockServer>> server = MockServer::start(flags.options);
  if (!server) return server.error();
  print_stderr("mock server on {}; Ctrl-C ends it\n", (*server)->url());
  wait_for(**signal);
  print_stderr("{} requests\n", (*server)->num_requests());
  return {};
}

}  // namespace

int run_mock(std::vector<std::string> arguments) {
  MockFlags flags;
  CommandLine line("bench mock", "Serves made-up tokens at exact times.");
  add_flags(line, flags);
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  return report("bench mock", mock(flags));
}

}  // namespace millrace::bench
