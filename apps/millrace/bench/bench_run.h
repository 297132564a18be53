// The points of one command, measured one after another: shows how far they are, keeps what was
// recorded, says in the end what to trust.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/flags.h"
#include "bench/measured_server.h"
#include "bench/point_spec.h"
#include "interrupt_signal.h"
#include "results/point_record.h"
#include "results/point_summary.h"

namespace millrace::bench {

inline constexpr int kExitNotTrusted = 4;  // with --strict
inline constexpr int kExitInterrupted = 130;

// Used by one thread; owns Ctrl-C while it lives: the first ends the run, and what is under way may
// finish for --grace-sec; the second does not wait for it.
class BenchRun {
 public:
  // `command`: as it was typed, for the record.
  static Result<std::unique_ptr<BenchRun>> start(const BenchFlags& flags, std::string command);

  // Measures one point; what it recorded is kept, on the disk too where --records asks for it and
  // it can be written (else it is noted), and lives as long as this. Two points have the same
  // prompts if their `prompts` are the same; none: the point's own.
  Result<const PointRecord*> measure(
      MeasuredServer& server, const PointSpec& spec, std::optional<size_t> prompts = {}
  );

  // The same with a point that was measured elsewhere: in process. `step_weight_bytes`: what a
  // decode step of that model reads, where --weight-bytes does not say; none: not known.
  const PointRecord& keep(PointRecord record, std::optional<int64_t> step_weight_bytes = {});

  // What failed late does not take with it what was measured: the first failure is what finish()
  // gives, and each after it is said at once.
  void note(const Result<void>& done);
  // A report of what was measured: to a file, or to stdout where `path` is empty or "-". Failures
  // are noted; without any point nothing is written.
  void write(const std::string& path, const std::string& text);

  bool is_interrupted() const { return stop_.stop_requested(); }
  std::stop_token stop_token() const { return stop_.get_token(); }
  uint64_t nonce() const { return nonce_; }
  size_t num_points() const { return records_.size(); }
  std::vector<PointRecord> records() const;

  // Rows by a tool's formulas.
  std::vector<PointSummary> summaries(Formulas formulas) const;
  PointSummary last_summary(Formulas formulas) const;

  // Writes --html; then the first failure that was noted, else the exit code: with --strict from
  // the verdicts. It is a failure too where no request of any point completed.
  Result<int> finish(const std::string& title);

 private:
  BenchRun(const BenchFlags& flags, std::string command);
  void add_calibration(PointRecord& record, Protocol protocol) const;
  void add_hardware_limit(PointRecord& record, int64_t step_weight_bytes) const;
  void print_line(const PointRecord& record) const;

  BenchFlags flags_;
  std::string command_;
  uint64_t nonce_;
  std::unique_ptr<InterruptSignal> signal_;
  std::stop_source stop_, cut_;
  std::vector<std::unique_ptr<PointRecord>> records_;
  std::optional<Error> failure_;  // the first that was noted
};

// Writes text to a file, which keeps what it had where that fails, or to stdout where `path` is
// empty or "-".
Result<void> write_report(const std::string& path, const std::string& text);

}  // namespace millrace::bench
