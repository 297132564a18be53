#include "bench/point_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/rng.h"

namespace millrace::bench {
namespace {

constexpr int64_t kNumWarmupsMax = 8;

Nanos nanos(double seconds) {
  return Nanos(static_cast<int64_t>(seconds * 1e9));
}

// Enough that every place of a closed loop has a connection and the server its memory, few enough
// that nobody waits for it.
int64_t num_warmups_of(const LoadFlags& flags, const PointSpec& spec) {
  if (flags.num_warmups) return *flags.num_warmups;
  if (spec.num_warmups) return *spec.num_warmups;
  return std::clamp<int64_t>(spec.load.max_concurrency.value_or(1), 1, kNumWarmupsMax);
}

DatasetPlan dataset_plan_of(const BenchFlags& flags, const DatasetOptions& options) {
  DatasetPlan plan;
  plan.name = options.name;
  plan.input_len = options.input_len;
  plan.output_len = options.output_len;
  if (options.name == "grid") plan.hit_len = options.hit_len;
  plan.range_ratio = options.range_ratio.value_or(0.0);
  if (options.range_ratio_mode) {
    plan.range_ratio_mode = *options.range_ratio_mode == RangeRatioMode::kVllm ? "vllm" : "sglang";
  }
  plan.sharegpt_output_len = options.sharegpt_output_len;
  plan.seed = options.seed;
  plan.ignores_eos = flags.target.ignores_eos;
  return plan;
}

PointPlan plan_of(const BenchFlags& flags, const MeasuredServer& server, const PointSpec& spec) {
  PointPlan plan;
  plan.name = spec.name;
  plan.framework = server.framework;
  plan.version = server.version;
  plan.device = server.device;
  plan.backend = flags.target.backend;
  plan.base_url =
      (server.target.url.is_tls ? "https://" : "http://") + server.target.url.host_field();
  plan.endpoint = server.target.endpoint;
  plan.is_streamed = server.target.is_streamed;
  plan.model = server.target.model;
  plan.tokenizer = server.tokenizer;
  plan.label = flags.output.label;
  plan.tag = flags.output.tag;
  plan.metadata = flags.output.metadata;
  plan.num_prompts = spec.num_prompts.value_or(0);
  plan.num_warmups = num_warmups_of(flags.load, spec);
  plan.max_seconds = spec.max_seconds;
  plan.dataset = dataset_plan_of(flags, spec.dataset);
  plan.load = spec.load;
  plan.goals = flags.output.goals;
  plan.price_per_hour = flags.output.price_per_hour;
  return plan;
}

}  // namespace

LoadPlan load_of(const LoadFlags& flags) {
  LoadPlan load;
  load.request_rate = flags.request_rate;
  load.burstiness = flags.burstiness;
  load.max_concurrency = flags.max_concurrency;
  if (std::isinf(flags.request_rate)) {
    load.kind = flags.max_concurrency ? LoadKind::kConcurrency : LoadKind::kBurst;
  } else {
    load.kind = std::isinf(flags.burstiness) ? LoadKind::kConstant : LoadKind::kGamma;
  }
  if (flags.ramp != RampKind::kNone) {
    load.kind = LoadKind::kGamma;
    load.ramp = flags.ramp == RampKind::kLinear ? "linear" : "exponential";
    load.ramp_start_rps = flags.ramp_start_rps;
    load.ramp_end_rps = flags.ramp_end_rps;
  }
  return load;
}

Result<std::unique_ptr<Dataset>> point_dataset(
    const BenchFlags& flags,
    const PointSpec& spec,
    uint64_t nonce,
    size_t point,
    std::shared_ptr<const TokenCodec> codec
) {
  DatasetOptions options = spec.dataset;
  const bool is_drawn = options.path.empty();
  if (is_drawn) options.seed = random_bits(options.seed, point);
  if (is_drawn && flags.has_nonce) options.nonce = random_bits(nonce, point);
  // Warm-up asks for prompts of its own.
  if (is_drawn && spec.num_prompts) {
    options.num_sessions =
        static_cast<size_t>(*spec.num_prompts + num_warmups_of(flags.load, spec));
  } else if (spec.num_prompts) {
    options.num_sessions = static_cast<size_t>(*spec.num_prompts);
  }
  Result<std::unique_ptr<Dataset>> dataset = make_dataset(options, std::move(codec));
  if (!dataset) return dataset;
  const std::optional<size_t> size = (*dataset)->size();
  if (!size || std::cmp_greater_equal(*size, spec.num_prompts.value_or(0))) return dataset;
  return invalid_argument(
      fmt::format(
          "--num-prompts is {}: the dataset has {}{}",
          *spec.num_prompts,
          *size,
          num_grouped_prompts(options) ? " (--gsp-num-groups times --gsp-prompts-per-group)" : ""
      ),
      "--num-prompts"
  );
}

CleanPointOptions clean_point_options(
    const BenchFlags& flags, const MeasuredServer& server, const PointSpec& spec, size_t point
) {
  CleanPointOptions options;
  options.plan = plan_of(flags, server, spec);
  options.flushes_cache = flags.load.flushes_cache;
  options.reads_metrics = flags.target.reads_metrics;
  options.idle_timeout =
      std::chrono::milliseconds(static_cast<int64_t>(flags.load.idle_timeout_s * 1000.0));
  LoadOptions& load = options.load;
  load.load = spec.load;
  load.seed = random_bits(spec.dataset.seed ^ 0x6c6f6164U, point);
  load.num_warmups = options.plan.num_warmups;
  load.num_sessions = spec.num_prompts;
  if (spec.max_seconds) load.max_duration = nanos(*spec.max_seconds);
  load.grace = nanos(flags.load.grace_s);
  load.max_errors = flags.load.max_errors;
  load.rampup_seconds = spec.rampup_seconds;
  load.num_threads = flags.load.num_threads;
  load.keeps_texts = flags.output.keeps_texts;
  return options;
}

}  // namespace millrace::bench
