// A bar on the terminal for work that takes long; silent where stderr is no terminal.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"

namespace millrace {

class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();  // clears the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Whether anybody sees it: where not, there is nothing to prepare.
  bool is_visible() const { return is_terminal_; }

  // `fraction`: 0 to 1. Draws only when a step of the bar has been reached.
  void show(double fraction);

  // The same with a few words behind it, as often as a reader follows. none: nobody knows how much
  // there is to do.
  void show(std::optional<double> fraction, const std::string& detail);

  // A line that stays, terminal or not; from any thread.
  void say(const std::string& line) const;

 private:
  std::string label_;
  bool is_terminal_;
  int num_steps_shown_ = -1;
  std::optional<TimePoint> detail_shown_;  // when
};

}  // namespace millrace
