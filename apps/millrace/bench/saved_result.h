// A result in the files of vLLM's and SGLang's clients, under their flags.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/bench_run.h"
#include "command_line.h"
#include "report/report.h"
#include "results/point_record.h"

namespace millrace::bench {

struct SavedResultFlags {
  bool is_saved = false;     // --save-result: vLLM's JSON
  bool is_detailed = false;  // --save-detailed
  bool is_appended = false;  // --append-result
  std::string directory;
  std::string file_name;
  std::string sglang_file;  // --output-file: SGLang's JSONL
  bool is_sglang_detailed = false;
  std::vector<std::string> metrics;  // --percentile-metrics; none: vLLM's

  bool keeps_texts() const { return is_detailed || is_sglang_detailed; }
  // `ranks`: of --metric-percentiles; none: 99
  VllmOptions vllm_options(const std::vector<double>& ranks) const;
};

void add_saved_result_flags(CommandLine& line, SavedResultFlags& flags);

// What cannot be written and what would be passed over, before anything is measured; makes
// --result-dir. `is_sglang`: SGLang's block is printed, not vLLM's; `output`: where else results
// go. Errors name the flag.
Result<void> check(const SavedResultFlags& flags, bool is_sglang, const OutputFlags& output = {});

// Writes what the flags ask for of the run's last point. `ranks`: as of vllm_options(). What cannot
// be written is noted, and keeps nothing else from being written.
void save_result(
    const SavedResultFlags& flags,
    const std::vector<double>& ranks,
    BenchRun& run,
    const PointRecord& record
);

// vLLM's name for a file: "{label}-{rate}qps[-concurrency{C}]-{model}-{time}.json"; a
// slash of the label is "_".
std::string vllm_file_name(const PointRecord& record);
// SGLang's: "{backend}_{MMDD}_{num_prompts}_{in}_{out}.jsonl", or with the dataset's name.
std::string sglang_file_name(const PointRecord& record);

}  // namespace millrace::bench
