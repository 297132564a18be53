#include "bench/saved_result.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "results/summarize.h"

namespace millrace::bench {
namespace {

std::tm local_time_of(const PointRecord& record) {
  const auto seconds = static_cast<std::time_t>(record.started_unix_ns / 1'000'000'000);
  std::tm fields{};
  ::localtime_r(&seconds, &fields);
  return fields;
}

std::string rate_text(double rate) {
  return std::isinf(rate) ? "inf" : fmt::format("{}", rate);
}

Result<void> append_line(const std::filesystem::path& path, const std::string& line) {
  std::ofstream file(path, std::ios::app);
  file << line << '\n';
  file.flush();
  if (!file) return invalid_argument(fmt::format("{} cannot be written", path.string()));
  return {};
}

Result<void> save_vllm(
    const SavedResultFlags& flags,
    const std::vector<double>& ranks,
    const PointSummary& row,
    const PointRecord& record
) {
  const std::filesystem::path directory = flags.directory.empty() ? "." : flags.directory;
  const std::string name = flags.file_name.empty() ? vllm_file_name(record) : flags.file_name;
  const std::string text =
      vllm_json(row, flags.is_detailed ? &record : nullptr, flags.vllm_options(ranks));
  return flags.is_appended ? append_line(directory / name, text)
                           : write_file(directory / name, text + "\n");
}

}  // namespace

VllmOptions SavedResultFlags::vllm_options(const std::vector<double>& ranks) const {
  VllmOptions options;
  if (!metrics.empty()) options.metrics = metrics;
  if (!ranks.empty()) options.ranks = ranks;
  return options;
}

void add_saved_result_flags(CommandLine& line, SavedResultFlags& flags) {
  line.add_flag("--save-result", flags.is_saved, "write vLLM's JSON");
  line.add_switch(
      "--save-detailed",
      [&flags] { flags.is_saved = flags.is_detailed = true; },
      "the same with each request's times and text"
  );
  line.add_switch(
      "--append-result",
      [&flags] { flags.is_saved = flags.is_appended = true; },
      "add it to the file as a line"
  );
  line.add("--result-dir", flags.directory, "of that file (here)");
  line.add("--result-filename", flags.file_name, "its name (made of label, rate, model and time)");
  line.add("--output-file", flags.sglang_file, "SGLang's JSONL, appended; auto: its own name");
  line.add_flag("--output-details", flags.is_sglang_detailed, "the same with each request");
  line.add_callback(
      "--percentile-metrics",
      [&flags](const std::string& text) -> Result<void> {
        size_t start = 0;
        while (start <= text.size()) {
          const size_t end = std::min(text.find(',', start), text.size());
          const std::string name = text.substr(start, end - start);
          if (name != "ttft" && name != "tpot" && name != "itl" && name != "e2el") {
            return invalid_argument(
                fmt::format("there is no metric '{}': expected ttft, tpot, itl or e2el", name)
            );
          }
          flags.metrics.push_back(name);
          start = end + 1;
        }
        return {};
      },
      "what vLLM's block and JSON show: ttft,tpot,itl,e2el"
  );
}

Result<void> check(const SavedResultFlags& flags, bool is_sglang, const OutputFlags& output) {
  const bool has_vllm = flags.is_saved || !is_sglang;
  for (const Result<void>& checked :
       {refuse_given(
            {{"--result-dir", !flags.is_saved && !flags.directory.empty()},
             {"--result-filename", !flags.is_saved && !flags.file_name.empty()}},
            "needs --save-result"
        ),
        refuse_given(
            {{"--percentile-metrics", !has_vllm && !flags.metrics.empty()}},
            "needs --save-result, or vLLM's block (--report-style vllm)"
        ),
        refuse_given(
            {{"--output-details", flags.is_sglang_detailed && flags.sglang_file.empty()}},
            "needs --output-file"
        )}) {
    if (!checked) return checked;
  }
  std::string saved_file;
  if (flags.is_saved) {
    const std::filesystem::path directory = flags.directory.empty() ? "." : flags.directory;
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) {
      return invalid_argument(
          fmt::format("--result-dir {}: {}", flags.directory, error.message()), "--result-dir"
      );
    }
    // Of a name that is made in the end, the folder alone can be looked at.
    if (flags.file_name.empty()) {
      const Result<void> checked = check_output_file("--result-dir", directory / "result.json");
      if (!checked) return checked;
    } else {
      saved_file = directory / flags.file_name;
    }
  }
  const std::string sglang_file = flags.sglang_file == "auto" ? "" : flags.sglang_file;
  return check_output_files(
      output, {{"--result-filename", saved_file}, {"--output-file", sglang_file}}
  );
}

void save_result(
    const SavedResultFlags& flags,
    const std::vector<double>& ranks,
    BenchRun& run,
    const PointRecord& record
) {
  if (flags.is_saved) {
    run.note(save_vllm(flags, ranks, run.last_summary(Formulas::kVllm), record));
  }
  if (flags.sglang_file.empty()) return;
  const std::string name =
      flags.sglang_file == "auto" ? sglang_file_name(record) : flags.sglang_file;
  const std::string line = sglang_json(
      run.last_summary(Formulas::kSglang), flags.is_sglang_detailed ? &record : nullptr
  );
  run.note(append_line(name, line));
}

std::string vllm_file_name(const PointRecord& record) {
  const PointPlan& plan = record.plan;
  std::string name = plan.label.empty() ? plan.backend : plan.label;
  name += fmt::format("-{}qps", rate_text(plan.load.request_rate));
  if (plan.load.max_concurrency) name += fmt::format("-concurrency{}", *plan.load.max_concurrency);
  const std::string model = plan.model.substr(plan.model.rfind('/') + 1);
  name += fmt::format("-{}-{:%Y%m%d-%H%M%S}.json", model, local_time_of(record));
  std::ranges::replace(name, '/', '_');
  return name;
}

std::string sglang_file_name(const PointRecord& record) {
  const PointPlan& plan = record.plan;
  std::string name =
      fmt::format("{}_{:%m%d}_{}_", plan.backend, local_time_of(record), plan.num_prompts);
  if (plan.dataset.name.starts_with("random")) {
    name += fmt::format(
        "{}_{}", plan.dataset.input_len.value_or(0), plan.dataset.output_len.value_or(0)
    );
  } else {
    name += plan.dataset.name;
  }
  return name + ".jsonl";
}

}  // namespace millrace::bench
