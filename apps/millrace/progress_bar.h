// A bar on the terminal for work that takes long; silent where stderr is no terminal.
#pragma once

#include <string>

namespace millrace {

class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();  // clears the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `fraction`: 0 to 1. Draws only when a step of the bar has been reached.
  void show(double fraction);

 private:
  std::string label_;
  bool is_terminal_;
  int num_steps_shown_ = -1;
};

}  // namespace millrace
