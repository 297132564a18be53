// What makes no sense, said before anything is measured.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "bench/flags.h"

namespace millrace::bench {
namespace {

constexpr double kSecondsMax = 1e7;  // four months: what is longer is a mistake
constexpr int64_t kCountMax = 1'000'000'000;
constexpr int64_t kConcurrencyMax = 1'000'000;
constexpr int32_t kThreadsMax = 256;
constexpr double kTemperatureMax = 100.0;
constexpr double kPriceMax = 1e9;

struct CountRule {
  const char* flag;
  std::optional<int64_t> count;
  int64_t least = 0, most = 0;
};

struct NumberRule {
  const char* flag;
  std::optional<double> number;
  double least = 0.0, most = 0.0;
};

struct SecondsRule {
  const char* flag;
  std::optional<double> seconds;
  bool may_be_zero = false;
};

Result<void> check(const CountRule& rule) {
  if (!rule.count || (*rule.count >= rule.least && *rule.count <= rule.most)) return {};
  return invalid_argument(
      fmt::format("{} is {}: expected {} to {}", rule.flag, *rule.count, rule.least, rule.most),
      rule.flag
  );
}

Result<void> check(const NumberRule& rule) {
  if (!rule.number || (*rule.number >= rule.least && *rule.number <= rule.most)) return {};
  return invalid_argument(
      fmt::format("{} is {}: expected {} to {}", rule.flag, *rule.number, rule.least, rule.most),
      rule.flag
  );
}

Result<void> check(const SecondsRule& rule) {
  if (!rule.seconds) return {};
  const double seconds = *rule.seconds;
  const bool is_positive = rule.may_be_zero ? seconds >= 0.0 : seconds > 0.0;
  if (is_positive && seconds <= kSecondsMax) return {};
  return invalid_argument(
      fmt::format(
          "{} is {}: expected seconds, {} and at most {:.0f}",
          rule.flag,
          seconds,
          rule.may_be_zero ? "0 or more" : "above 0",
          kSecondsMax
      ),
      rule.flag
  );
}

// By whatever names. Devices, which take everything, are not meant.
bool is_same_file(const std::string& one, const std::string& other) {
  const auto is_none = [](const std::string& path) { return path.empty() || path == "-"; };
  if (is_none(one) || is_none(other)) return false;
  std::error_code error;  // of a file that is not there yet
  const bool is_device =
      std::filesystem::exists(one, error) && !std::filesystem::is_regular_file(one, error);
  if (is_device) return false;
  if (std::filesystem::equivalent(one, other, error)) return true;
  const auto place = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  };
  return place(one) == place(other);
}

}  // namespace

Result<void> check_output_file(const char* flag, const std::string& file) {
  if (file.empty() || file == "-") return {};
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code error;
  std::string problem;
  if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
    problem = "there is no folder " + folder.string();
  } else if (std::filesystem::is_directory(file, error)) {
    problem = "it is a folder, expected a file";
  } else {
    const bool exists = std::filesystem::exists(file, error);
    const std::string written = exists ? file : folder.empty() ? "." : folder.string();
    if (::access(written.c_str(), W_OK) == 0) return {};
    problem = fmt::format("{} cannot be written: {}", written, std::strerror(errno));
  }
  return invalid_argument(fmt::format("{} {}: {}", flag, file, problem), flag);
}

Result<void> check_output_files(const OutputFlags& output, std::initializer_list<OutputFile> more) {
  std::vector<OutputFile> files = {
      {"--records", output.records}, {"--html", output.html}, {"--output", output.report}};
  files.insert(files.end(), more);
  for (size_t i = 0; i < files.size(); ++i) {
    const auto& [flag, path] = files[i];
    if (auto checked = check_output_file(flag, path); !checked) return checked;
    for (size_t j = 0; j < i; ++j) {
      if (!is_same_file(path, files[j].path)) continue;
      return invalid_argument(
          fmt::format("{} {}: {} is the same file", flag, path, files[j].flag), flag
      );
    }
  }
  return {};
}

Result<void> refuse_overwriting(
    const char* flag, const std::string& file, const std::vector<std::string>& inputs
) {
  for (const std::string& input : inputs) {
    if (!is_same_file(file, input)) continue;
    return invalid_argument(fmt::format("{} {}: it is what is read", flag, file), flag);
  }
  return {};
}

Result<void> refuse_given(
    std::initializer_list<std::pair<const char*, bool>> flags, std::string_view why
) {
  for (const auto& [flag, is_given] : flags) {
    if (is_given) return invalid_argument(fmt::format("{} {}", flag, why), flag);
  }
  return {};
}

namespace {

Result<void> check_arrivals(const LoadFlags& load) {
  if (!(load.burstiness > 0.0)) {
    return invalid_argument(
        fmt::format("--burstiness is {}: expected a number above 0", load.burstiness),
        "--burstiness"
    );
  }
  const bool is_drawn = load.ramp != RampKind::kNone || !std::isinf(load.request_rate);
  if (load.burstiness != 1.0 && !is_drawn) {
    return invalid_argument("--burstiness needs a finite --request-rate", "--burstiness");
  }
  if (load.ramp != RampKind::kNone) {
    return refuse_given(
        {{"--request-rate", !std::isinf(load.request_rate)}},
        "has no meaning beside --ramp-up-strategy"
    );
  }
  return refuse_given(
      {{"--ramp-up-start-rps", load.ramp_start_rps != 0.0},
       {"--ramp-up-end-rps", load.ramp_end_rps != 0.0}},
      "needs --ramp-up-strategy"
  );
}

}  // namespace

Result<void> check_flags(const BenchFlags& flags) {
  const LoadFlags& load = flags.load;
  const OutputFlags& output = flags.output;
  for (const CountRule& rule :
       {CountRule{"--num-prompts", load.num_prompts, 1, kCountMax},
        CountRule{"--num-warmups", load.num_warmups, 0, kCountMax},
        CountRule{"--max-concurrency", load.max_concurrency, 1, kConcurrencyMax},
        CountRule{"--client-threads", load.num_threads, 1, kThreadsMax},
        CountRule{"--max-errors", load.max_errors, -1, kCountMax},
        CountRule{"--top-k", flags.target.top_k, -1, kCountMax},
        CountRule{"--weight-bytes", output.weight_bytes, 1, INT64_MAX}}) {
    if (auto checked = check(rule); !checked) return checked;
  }
  for (const NumberRule& rule :
       {NumberRule{"--temperature", flags.target.temperature, 0.0, kTemperatureMax},
        NumberRule{"--top-p", flags.target.top_p, 0.0, 1.0},
        NumberRule{"--price-per-hour", output.price_per_hour, 0.0, kPriceMax}}) {
    if (auto checked = check(rule); !checked) return checked;
  }
  for (const SecondsRule& rule :
       {SecondsRule{"--max-seconds", load.max_seconds},
        SecondsRule{"--grace-sec", load.grace_s, true},
        SecondsRule{"--idle-timeout-sec", load.idle_timeout_s, true},
        SecondsRule{"--ready-check-timeout-sec", flags.target.ready_timeout_s, true}}) {
    if (auto checked = check(rule); !checked) return checked;
  }
  if (load.precision && !(*load.precision > 0.0)) {
    return invalid_argument("--precision must be above 0 percent", "--precision");
  }
  if (auto checked = check_arrivals(load); !checked) return checked;
  const bool has_token_goal = output.goals.tpot_ms || output.goals.itl_ms;
  if (!flags.target.is_streamed && has_token_goal) {
    return invalid_argument(
        "--goodput: goals of tpot and itl need streams, and --disable-stream asks for none",
        "--goodput"
    );
  }
  const bool has_own_prompts = !flags.dataset.path.empty();
  if (auto checked = refuse_given(
          {{"--no-nonce", !flags.has_nonce && has_own_prompts}},
          "has no meaning with --dataset-path: a file's prompts are the same in each run"
      );
      !checked) {
    return checked;
  }
  return check_output_files(output);
}

}  // namespace millrace::bench
