#include "bench/bench_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <utility>

#include "base/available.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "bench/environment.h"
#include "bench/precision.h"
#include "kernels/machine_limits.h"
#include "loadgen/calibrate.h"
#include "loadgen/clean_point.h"
#include "progress_bar.h"
#include "report/report.h"
#include "results/record_file.h"
#include "results/summarize.h"
#include "terminal.h"

namespace millrace::bench {
namespace {

// Another one for each run, also of two that start at once.
uint64_t make_nonce() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return random_bits(static_cast<uint64_t>(now.count()), static_cast<uint64_t>(::getpid()));
}

void show(ProgressBar& bar, const LoadProgress& progress, std::optional<Nanos> max_duration) {
  if (!bar.is_visible()) return;
  const double seconds = std::chrono::duration<double>(progress.elapsed).count();
  const int64_t num_done = progress.num_completed + progress.num_failed;
  std::optional<double> fraction;
  if (progress.num_planned && *progress.num_planned > 0) {
    fraction = static_cast<double>(num_done) / static_cast<double>(*progress.num_planned);
  } else if (max_duration && *max_duration > Nanos(0)) {
    fraction = seconds / std::chrono::duration<double>(*max_duration).count();
  }
  std::string text = fmt::format("{} done", progress.num_completed);
  if (progress.num_failed > 0) text += fmt::format(", {} failed", progress.num_failed);
  text += fmt::format(", {} in flight", progress.num_in_flight);
  if (seconds > 0.0) {
    text +=
        fmt::format(", {:.0f} tok/s", static_cast<double>(progress.num_output_tokens) / seconds);
  }
  if (progress.ttft_p50_ms && progress.ttft_p99_ms) {
    text += fmt::format(", TTFT {:.0f}/{:.0f}", *progress.ttft_p50_ms, *progress.ttft_p99_ms);
  }
  if (progress.itl_p50_ms && progress.itl_p99_ms) {
    text += fmt::format(", ITL {:.1f}/{:.1f} ms", *progress.itl_p50_ms, *progress.itl_p99_ms);
  }
  bar.show(fraction, text);
}

std::string mean_text(const PointSummary& row, Metric metric) {
  const std::optional<Distribution>& distribution = row[metric];
  return distribution ? fmt::format("{:.2f}", distribution->mean) : "-";
}

}  // namespace

BenchRun::BenchRun(const BenchFlags& flags, std::string command)
    : flags_(flags), command_(std::move(command)), nonce_(make_nonce()) {}

Result<std::unique_ptr<BenchRun>> BenchRun::start(const BenchFlags& flags, std::string command) {
  if (auto checked = check_flags(flags); !checked) return checked.error();
  std::unique_ptr<BenchRun> run(new BenchRun(flags, std::move(command)));
  Result<std::unique_ptr<InterruptSignal>> signal = InterruptSignal::make({SIGINT, SIGTERM});
  if (!signal) return signal.error();
  run->signal_ = *std::move(signal);
  // The first ends the point, and what is under way may finish; the next one cuts that as well.
  run->signal_->set_handler([stop = run->stop_, cut = run->cut_]() mutable {
    if (!stop.request_stop()) cut.request_stop();
  });
  return run;
}

Result<const PointRecord*> BenchRun::measure(
    MeasuredServer& server, const PointSpec& spec, std::optional<size_t> prompts
) {
  const size_t point = prompts.value_or(records_.size());
  const Result<std::unique_ptr<Dataset>> dataset =
      point_dataset(flags_, spec, nonce_, point, server.codec);
  if (!dataset) return dataset.error();
  CleanPointOptions options = clean_point_options(flags_, server, spec, point);
  std::optional<ProgressBar> bar(spec.name.empty() ? "measuring" : spec.name);
  options.load.on_progress = [&](const LoadProgress& progress) {
    show(*bar, progress, options.load.max_duration);
  };
  options.load.cut = cut_.get_token();
  options.load.on_stopping = [&](int64_t num_awaited) {
    bar->say(fmt::format(
        "stopping: waiting up to {} s for {} requests; Ctrl-C again cuts them",
        flags_.load.grace_s,
        num_awaited
    ));
  };
  if (flags_.load.precision) {
    options.load.is_precise = precision_test(options.plan, *flags_.load.precision);
  }
  Result<PointRecord> record =
      measure_clean_point(server.target, server.probe, **dataset, options, stop_.get_token());
  bar.reset();
  if (!record) return record.error();
  if (flags_.output.calibrates) add_calibration(*record, server.target.protocol);
  return &keep(*std::move(record));
}

const PointRecord& BenchRun::keep(PointRecord record, std::optional<int64_t> step_weight_bytes) {
  record.environment = environment(command_);
  if (flags_.output.weight_bytes) step_weight_bytes = flags_.output.weight_bytes;
  if (step_weight_bytes) add_hardware_limit(record, *step_weight_bytes);
  records_.push_back(std::make_unique<PointRecord>(std::move(record)));
  const PointRecord& kept = *records_.back();
  print_line(kept);
  if (!flags_.output.records.empty()) note(append_record(flags_.output.records, kept));
  return kept;
}

void BenchRun::note(const Result<void>& done) {
  if (done) return;
  if (failure_) return print_stderr("millrace bench: {}\n", done.error().message);
  failure_ = done.error();
}

void BenchRun::write(const std::string& path, const std::string& text) {
  if (!records_.empty()) note(write_report(path, text));
}

std::vector<PointRecord> BenchRun::records() const {
  std::vector<PointRecord> records;
  for (const auto& record : records_) records.push_back(*record);
  return records;
}

std::vector<PointSummary> BenchRun::summaries(Formulas formulas) const {
  std::vector<PointSummary> rows;
  for (const auto& record : records_) {
    rows.push_back(
        summarize(*record, {.formulas = formulas, .percentiles = flags_.output.metric_percentiles})
    );
  }
  return rows;
}

PointSummary BenchRun::last_summary(Formulas formulas) const {
  return summarize(
      *records_.back(), {.formulas = formulas, .percentiles = flags_.output.metric_percentiles}
  );
}

Result<int> BenchRun::finish(const std::string& title) {
  const std::vector<PointSummary> rows = summaries(Formulas::kMillrace);
  if (!flags_.output.html.empty()) {
    ReportOptions options;
    options.title = title;
    options.now_unix_ns =
        std::chrono::duration_cast<Nanos>(std::chrono::system_clock::now().time_since_epoch())
            .count();
    write(flags_.output.html, html_page(rows, records(), options));
  }
  if (failure_) return *failure_;
  if (is_interrupted()) return kExitInterrupted;
  const bool is_trusted = std::ranges::all_of(rows, [](const PointSummary& row) {
    return row.verdict.trust() == Trust::kOk;
  });
  if (flags_.output.is_strict && !is_trusted) return kExitNotTrusted;
  const bool has_completed = std::ranges::any_of(rows, [](const PointSummary& row) {
    return row.num_completed.value_or(0) > 0;
  });
  if (has_completed || rows.empty()) return 0;
  return Error{ErrorCode::kInternal, "no request completed, expected at least one"};
}

void BenchRun::add_calibration(PointRecord& record, Protocol protocol) const {
  const std::optional<CalibrationLoad> load = calibration_load_of(record, protocol);
  if (!load || is_interrupted()) return;
  Result<Calibration> calibration = calibrate(*load, stop_.get_token());
  if (calibration) {
    record.calibration = *calibration;
  } else {
    print_stderr("millrace bench: no calibration: {}\n", calibration.error().message);
  }
}

// A decode step reads the weights once for all sequences, and takes as long as the gap between two
// tokens of any of them. Measured anew for each point: the bandwidth of a shared machine swings.
void BenchRun::add_hardware_limit(PointRecord& record, int64_t step_weight_bytes) const {
  ThreadPool threads(num_available_cpus());
  Result<MachineLimits> limits = MachineLimits::prepare(threads, best_isa());
  if (!limits) {
    print_stderr("millrace bench: no read bandwidth: {}\n", limits.error().message);
    return;
  }
  const double bytes_per_s = limits->measure_read_bytes_per_second();
  HardwareLimit limit{
      .name = "memory read of the client's machine",
      .value = bytes_per_s * 1e-9,
      .unit = "GB/s",
      .share = {},
  };
  const PointSummary row = summarize(record, {.num_resamples = 0});
  if (const auto& itl = row[Metric::kItl]; itl && itl->mean > 0.0) {
    limit.share = static_cast<double>(step_weight_bytes) / (itl->mean * 1e-3) / bytes_per_s;
  }
  record.limits.push_back(std::move(limit));
}

void BenchRun::print_line(const PointRecord& record) const {
  const PointSummary row = summarize(record, {.num_resamples = 0});
  print_stderr(
      "{}: {} done in {:.1f} s, {:.2f} req/s, {:.1f} tok/s, TTFT {} ms, ITL {} ms, E2E {} ms: {}\n",
      record.plan.name.empty() ? record.plan.framework : record.plan.name,
      row.num_completed.value_or(0),
      row.duration_s.value_or(0.0),
      row.request_throughput.value_or(0.0),
      row.output_throughput.value_or(0.0),
      mean_text(row, Metric::kTtft),
      mean_text(row, Metric::kItl),
      mean_text(row, Metric::kE2e),
      to_string(row.verdict.trust())
  );
  for (const Finding& finding : row.verdict.findings) {
    print_stderr("  {}: {}\n", to_string(finding.trust), finding.message);
  }
  for (const std::string& example : row.error_examples)
    print_stderr("  for example: {}\n", example);
}

Result<void> write_report(const std::string& path, const std::string& text) {
  if (!path.empty() && path != "-") return write_file(path, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return {};
  return Error{ErrorCode::kResourceExhausted, "stdout could not be written", "stdout"};
}

}  // namespace millrace::bench
