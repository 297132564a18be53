// How `millrace generate` prints: text as it comes, text at the end, or a JSON object a line.
#pragma once

#include <chrono>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "batch_run.h"

namespace millrace {

struct OutputOptions {
  bool stream = false;
  bool json = false;
};

class GenerateOutput {
 public:
  // `items` are borrowed.
  GenerateOutput(std::span<const BatchItem> items, const OutputOptions& options);

  BatchCallbacks callbacks();

  // Prints the speed on stderr, where people look at text. An error if any prompt failed.
  Result<void> finish();

 private:
  void print_text(size_t index, const ItemResult& result);
  void print_json(size_t index, const ItemResult& result);
  void print_error(size_t index, const Error& error);
  void account(const ItemResult& result);
  bool is_written();

  std::span<const BatchItem> items_;
  OutputOptions options_;
  TimePoint begin_ = Clock::now();
  size_t num_failed_ = 0;
  bool is_output_lost_ = false;
  int64_t num_prompt_tokens_ = 0;
  int64_t num_output_tokens_ = 0;
  Duration prefill_time_{0};  // of all items, from start to first token
  Duration decode_time_{0};   // of all items, from first to last token
  int64_t num_decoded_tokens_ = 0;
};

}  // namespace millrace
