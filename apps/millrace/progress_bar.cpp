#include "progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "terminal.h"

namespace millrace {
namespace {

constexpr int kNumSteps = 40;
constexpr int kNumStepsWithDetail = 20;  // so that a line fits into 80 columns
constexpr auto kDetailInterval = std::chrono::milliseconds(200);

}  // namespace

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)), is_terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (num_steps_shown_ >= 0 || detail_shown_) print_stderr("\r\033[K");
}

void ProgressBar::say(const std::string& line) const {
  print_stderr("{}{}\n", is_terminal_ ? "\r\033[K" : "", line);
}

void ProgressBar::show(double fraction) {
  const int num_steps = std::clamp(static_cast<int>(fraction * kNumSteps), 0, kNumSteps);
  if (!is_terminal_ || num_steps == num_steps_shown_) return;
  num_steps_shown_ = num_steps;
  const std::string done(static_cast<size_t>(num_steps), '#');
  print_stderr("\r{} [{:<{}}] {:3.0f} %", label_, done, kNumSteps, fraction * 100.0);
  std::fflush(stderr);
}

void ProgressBar::show(std::optional<double> fraction, const std::string& detail) {
  const TimePoint now = Clock::now();
  if (!is_terminal_ || (detail_shown_ && now - *detail_shown_ < kDetailInterval)) return;
  detail_shown_ = now;
  std::string bar;
  if (fraction) {
    const double share = std::clamp(*fraction, 0.0, 1.0);
    const std::string done(static_cast<size_t>(share * kNumStepsWithDetail), '#');
    bar = fmt::format("[{:<{}}] {:3.0f} % ", done, kNumStepsWithDetail, share * 100.0);
  }
  print_stderr("\r{} {}{}\033[K", label_, bar, detail);
  std::fflush(stderr);
}

}  // namespace millrace
