// Guards of the interpreter that undo a change when they go.
#pragma once

#include <memory>
#include <utility>

#include "text/jinja/run.h"

namespace millrace::jinja {

// Depth of evaluation. A macro that calls itself 100 times, each time inside of a few blocks and
// expressions, stays below; the stack of a thread (8 MiB) has room for several times as much.
constexpr int kEvaluationDepthMax = 1200;

class Run::Deeper {
 public:
  explicit Deeper(Run& run) : run_(run) {
    if (++run_.depth_ > kEvaluationDepthMax) {
      run_.fail_limit("the chat template nests its evaluation too deeply");
    }
  }
  ~Deeper() { --run_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Run& run_;
};

// A new scope around what follows, inside of `parent`.
class Run::Frame {
 public:
  Frame(Run& run, std::shared_ptr<Scope> parent)
      : run_(run), before_(std::exchange(run.scope_, std::make_shared<Scope>())) {
    run_.scope_->parent = std::move(parent);
  }
  explicit Frame(Run& run) : Frame(run, run.scope_) {}
  ~Frame() { run_.scope_ = std::move(before_); }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 private:
  Run& run_;
  std::shared_ptr<Scope> before_;
};

template <class Execute>
Value Run::captured(Execute execute_body) {
  TextBuilder captured_text(limits_.output_bytes_max);
  TextBuilder* const before = std::exchange(out_, &captured_text);
  execute_body();
  out_ = before;
  open_bytes_ -= captured_text.size();
  if (failed()) return {};
  return str(captured_text);
}

}  // namespace millrace::jinja
