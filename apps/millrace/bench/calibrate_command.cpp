// `millrace bench calibrate`: what this client on this machine adds to the times it measures, and
// how much it can send.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_run.h"
#include "bench/commands.h"
#include "bench/flag_values.h"
#include "bench/flags.h"
#include "command_line.h"
#include "failure.h"
#include "loadgen/calibrate.h"

namespace millrace::bench {
namespace {

struct CalibrateFlags {
  std::string backend = "openai";
  std::vector<double> rates;
  std::vector<int64_t> concurrency = {1, 8, 64};
  double ttft_ms = 20.0;
  double itl_ms = 10.0;
  int64_t num_output_tokens = 16;
  double seconds = 3.0;
  int32_t num_threads = 1;
};

Nanos nanos_of_ms(double milliseconds) {
  return Nanos(static_cast<int64_t>(milliseconds * 1e6));
}

CalibrationLoad load_of(const CalibrateFlags& flags, Protocol protocol) {
  CalibrationLoad load;
  load.protocol = protocol;
  load.ttft = nanos_of_ms(flags.ttft_ms);
  load.itl = nanos_of_ms(flags.itl_ms);
  load.num_output_tokens = flags.num_output_tokens;
  load.duration = nanos_of_ms(flags.seconds * 1e3);
  load.num_threads = flags.num_threads;
  return load;
}

Result<std::string> line_of(const std::string& name, const CalibrationLoad& load) {
  const Result<Calibration> floor = calibrate(load, {});
  if (!floor) return floor.error();
  return fmt::format(
      "| {} | {:.1f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} |\n",
      name,
      floor->requests_per_s,
      floor->ttft_p50_ms,
      floor->ttft_p99_ms,
      floor->itl_p50_ms,
      floor->itl_p99_ms
  );
}

Result<int> calibrate_all(const CalibrateFlags& flags) {
  if (!(flags.seconds > 0.0 && flags.ttft_ms >= 0.0 && flags.itl_ms >= 0.0) ||
      flags.num_output_tokens < 1) {
    return invalid_argument("times and lengths must be above 0", "--seconds");
  }
  const Result<Target> target = target_of({.backend = flags.backend});
  if (!target) return target.error();
  std::string text =
      "| load | requests/s | TTFT +p50 ms | TTFT +p99 ms | ITL off p50 ms | ITL off p99 ms |\n"
      "|:-----|-----------:|-------------:|-------------:|---------------:|---------------:|\n";
  for (const double rate : flags.rates) {
    CalibrationLoad load = load_of(flags, target->protocol);
    load.request_rate = rate;
    Result<std::string> line = line_of(fmt::format("rate {}", rate), load);
    if (!line) return line.error();
    text += *line;
  }
  for (const int64_t concurrency : flags.concurrency) {
    CalibrationLoad load = load_of(flags, target->protocol);
    load.concurrency = concurrency;
    Result<std::string> line = line_of(fmt::format("concurrency {}", concurrency), load);
    if (!line) return line.error();
    text += *line;
  }
  if (auto written = write_report({}, text); !written) return written.error();
  return 0;
}

}  // namespace

int run_calibrate(std::vector<std::string> arguments) {
  CalibrateFlags flags;
  CommandLine line(
      "bench calibrate",
      "Measures a server whose times are known: what is too much is this client's and machine's."
  );
  line.add("--backend", flags.backend, "openai, openai-chat, sglang, ... (openai)");
  line.add_value(
      "--request-rate",
      [&flags](const std::string& text) -> Result<void> {
        Result<std::vector<double>> rates = parse_rates(text);
        if (!rates) return rates.error();
        flags.rates = *std::move(rates);
        return {};
      },
      "open loop, several with commas"
  );
  line.add_value(
      "--max-concurrency,--concurrency",
      [&flags](const std::string& text) -> Result<void> {
        Result<std::vector<int64_t>> counts = parse_counts(text);
        if (!counts) return counts.error();
        flags.concurrency = *std::move(counts);
        return {};
      },
      "closed loop, several with commas (1,8,64)"
  );
  line.add("--ttft-ms", flags.ttft_ms, "of the mock (20)");
  line.add("--itl-ms", flags.itl_ms, "of the mock (10)");
  line.add("--output-len", flags.num_output_tokens, "tokens of an answer (16)");
  line.add("--seconds", flags.seconds, "for each load (3)");
  line.add("--client-threads", flags.num_threads, "threads that send and receive (1)");
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  const Result<int> exit_code = calibrate_all(flags);
  return exit_code ? *exit_code : report("bench calibrate", exit_code.error());
}

}  // namespace millrace::bench
