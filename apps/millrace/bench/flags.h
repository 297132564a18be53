// The flags of `millrace bench`, in the spelling of the tools that people come from: vLLM's and
// SGLang's where they agree, both where they do not.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "command_line.h"
#include "loadgen/load.h"
#include "loadgen/target.h"
#include "results/point_record.h"
#include "results/point_summary.h"
#include "workload/arrivals.h"
#include "workload/dataset.h"

namespace millrace::bench {

// Which server, and how it is spoken to.
struct TargetFlags {
  std::string backend = "openai";
  std::string base_url;
  std::string host = "127.0.0.1";
  int32_t port = 8000;
  std::string endpoint;  // empty: the backend's
  std::string model;     // empty: the first that the server names
  std::string tokenizer;
  std::string framework;
  std::string api_key;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string extra_body;
  std::optional<double> temperature, top_p;
  std::optional<int64_t> top_k;
  bool ignores_eos = true;
  bool is_streamed = true;
  bool is_verified = true;
  bool reads_metrics = true;
  std::string ca_file;
  double request_timeout_s = 6 * 3600;
  double ready_timeout_s = 10;
  std::optional<int32_t> pid;  // of a server on this machine; none: found by its port
};

// How requests arrive, how many, and between what.
struct LoadFlags {
  double request_rate = std::numeric_limits<double>::infinity();
  double burstiness = 1.0;
  std::optional<int64_t> max_concurrency;
  RampKind ramp = RampKind::kNone;
  double ramp_start_rps = 0.0, ramp_end_rps = 0.0;
  std::optional<int64_t> num_prompts;
  std::optional<double> max_seconds;
  double grace_s = 60.0;
  std::optional<int64_t> num_warmups;
  int64_t max_errors = -1;
  std::optional<double> precision;  // stop when half-widths are below this share
  bool flushes_cache = false;
  int32_t num_threads = 1;
  double idle_timeout_s = 60.0;
};

// What becomes of the results.
struct OutputFlags {
  std::string records;  // our JSONL, appended
  std::string html;
  std::string report;                      // of the command's shape; empty: stdout
  std::vector<double> metric_percentiles;  // --metric-percentiles
  Goals goals;
  std::string label, tag;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::optional<double> price_per_hour;
  std::optional<int64_t> weight_bytes;  // that one decode step reads
  std::string device, version;
  bool is_strict = false;
  bool calibrates = true;
  bool keeps_typos = false;
  bool keeps_texts = false;
};

struct BenchFlags {
  TargetFlags target;
  DatasetOptions dataset;
  bool has_nonce = true;  // --no-nonce: the same prompts come again
  LoadFlags load;
  OutputFlags output;
};

// Without --framework for commands in which it names several servers.
void add_target_flags(CommandLine& line, TargetFlags& flags, bool with_framework = true);
// What prompts are drawn from, for every command.
void add_seed_flags(CommandLine& line, BenchFlags& flags);
// All datasets', for commands that let one choose.
void add_dataset_flags(CommandLine& line, BenchFlags& flags);
// Lengths for datasets that are drawn, where the flags have none; files have their own.
void set_default_lengths(DatasetOptions& options, int64_t input_len, int64_t output_len);
// How many prompts generated-shared-prefix has; none: another dataset, or more than there may be.
std::optional<int64_t> num_grouped_prompts(const DatasetOptions& options);
void add_load_flags(CommandLine& line, LoadFlags& flags);   // rate, concurrency, ramps
void add_limit_flags(CommandLine& line, LoadFlags& flags);  // number, time, warm-up, cleaning up
void add_output_flags(CommandLine& line, OutputFlags& flags);

// Numbers without sense and files that cannot be, before anything is measured. Errors name the
// flag.
Result<void> check_flags(const BenchFlags& flags);
// Refuses by name the first flag that is given and would be passed over: "FLAG why".
Result<void> refuse_given(
    std::initializer_list<std::pair<const char*, bool>> flags, std::string_view why
);
// Whether a file can be made or written, said now: after an hour of measuring it would be a pity.
// "" and "-" are none.
Result<void> check_output_file(const char* flag, const std::string& file);

struct OutputFile {
  const char* flag;
  std::string path;
};
// The same of --records, --html, --output and `more`, of which no two may be one file.
Result<void> check_output_files(
    const OutputFlags& output, std::initializer_list<OutputFile> more = {}
);
// Refuses an output that would take the place of what it is made of.
Result<void> refuse_overwriting(
    const char* flag, const std::string& file, const std::vector<std::string>& inputs
);

// The server. `url` replaces --base-url, where a command takes several. Errors name the flag.
Result<Target> target_of(const TargetFlags& flags, const std::string& url = {});

// --tokenizer's codec, else the server's own /tokenize.
Result<std::shared_ptr<const TokenCodec>> codec_of(const TargetFlags& flags, const Target& target);

}  // namespace millrace::bench
