// `millrace bench grid`: the published grid of batch, prompt, hit and output lengths, against a
// server or, as it was published, without one.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_run.h"
#include "bench/commands.h"
#include "bench/environment.h"
#include "bench/flag_values.h"
#include "bench/flags.h"
#include "bench/grid_point.h"
#include "bench/in_process_load.h"
#include "command_line.h"
#include "cuda/runtime.h"
#include "failure.h"
#include "model_flags.h"
#include "report/report.h"
#include "server/model_device.h"
#include "speculation_flag.h"
#include "terminal.h"

namespace millrace::bench {
namespace {

struct GridFlags {
  BenchFlags bench;
  std::string in_process;  // MODEL; empty: a server
  std::string load_format = "auto";
  std::string dtype = "auto";
  std::string quantization = "auto";
  int32_t num_threads = 0;
  std::string in_process_device = "auto";
  std::optional<NgramSpeculation> speculation;
  std::vector<int64_t> batches = {1, 4, 8};
  std::vector<GridLengths> lengths = {
      {32, 0, 1024}, {512, 0, 512}, {1024, 0, 32}, {1024, 512, 32}, {1024, 1024, 32}};
  std::optional<int64_t> num_prompts;
};

constexpr const char* kFooter =
    "Each of B coroutines sends its next prompt when the last is answered: I tokens, of which the "
    "first H are\n"
    "those of all others (in the server's cache after warm-up), and exactly O tokens out. TPS "
    "counts input and\n"
    "output tokens.\n"
    "\n"
    "Examples:\n"
    "  millrace bench grid --port 8000 --b 1,4 --iho 32/0/64,256/128/16\n"
    "  millrace bench grid --in-process smollm2 --b 1,4,8 -o grid.md";

void add_flags(CommandLine& line, GridFlags& flags) {
  add_target_flags(line, flags.bench.target);
  add_seed_flags(line, flags.bench);
  line.add("--in-process", flags.in_process, "MODEL that runs in this process, without HTTP");
  line.add("--load-format", flags.load_format, "of that model: auto or dummy");
  line.add("--dtype", flags.dtype, "of that model's weights");
  line.add(
      "--quantization", flags.quantization, "of that model: auto, none, int8, w8a8, int4 or stored"
  );
  line.add("--threads", flags.num_threads, "of that model (one a core)");
  line.add(
      "--in-process-device",
      flags.in_process_device,
      "what that model runs on: cpu, cuda, or auto (cpu)"
  );
  add_speculation_flag(line, flags.speculation);
  line.add_value(
      "--batch-size,--b",
      [&flags](const std::string& text) -> Result<void> {
        Result<std::vector<int64_t>> counts = parse_counts(text);
        if (!counts) return counts.error();
        flags.batches = *std::move(counts);
        return {};
      },
      "requests at once, several with commas (1,4,8)"
  );
  line.add_value(
      "--iho",
      [&flags](const std::string& text) -> Result<void> {
        Result<std::vector<GridLengths>> lengths = parse_grid_lengths(text);
        if (!lengths) return lengths.error();
        flags.lengths = *std::move(lengths);
        return {};
      },
      "INPUT/HIT/OUTPUT tokens, several with commas"
  );
  line.add(
      "--n", flags.num_prompts, "prompts of a point (16 B for long answers, 32 B for short ones)"
  );
  add_limit_flags(line, flags.bench.load);
  add_output_flags(line, flags.bench.output);
  line.set_footer(kFooter);
}

PointSpec spec_of(const GridFlags& flags, const GridPoint& point) {
  PointSpec spec;
  spec.name = point.name();
  spec.load.kind = LoadKind::kConcurrency;
  spec.load.max_concurrency = point.batch;
  spec.dataset = flags.bench.dataset;
  spec.dataset.name = "grid";
  spec.dataset.input_len = point.lengths.input;
  spec.dataset.hit_len = point.lengths.hit;
  spec.dataset.output_len = point.lengths.output;
  spec.num_prompts = flags.num_prompts.value_or(point.num_prompts());
  spec.num_warmups =
      flags.bench.load.num_warmups.value_or(std::max<int64_t>(1, *spec.num_prompts / 4));
  spec.max_seconds = flags.bench.load.max_seconds;
  return spec;
}

Result<void> measure_server(const GridFlags& flags, BenchRun& run) {
  Result<MeasuredServer> server = MeasuredServer::connect(flags.bench, {}, {});
  if (!server) return server.error();
  if (server->device.empty()) server->device = short_cpu_name(cpu_model_name());
  for (const GridPoint& point : grid_points(flags.batches, flags.lengths)) {
    if (run.is_interrupted()) break;
    auto record = run.measure(*server, spec_of(flags, point));
    if (!record) return record.error();
  }
  return {};
}

Result<DeviceChoice> device_choice(const GridFlags& flags) {
  return device_of_flag(flags.in_process_device, "--in-process-device");
}

Result<LocalModel> load_model(const GridFlags& flags) {
  ModelFlags model;
  model.model = flags.in_process;
  model.tokenizer = flags.bench.target.tokenizer;
  model.load_format = flags.load_format;
  model.dtype = flags.dtype;
  model.quantization = flags.quantization;
  model.num_threads = flags.num_threads;
  model.device = flags.in_process_device;
  model.speculation = flags.speculation;
  model.max_num_seqs = static_cast<int32_t>(
      std::max<int64_t>(model.max_num_seqs, *std::ranges::max_element(flags.batches))
  );
  Result<LocalModelOptions> options = model_options_of(model);
  if (!options) return options.error();
  return load_with_progress(*std::move(options));
}

// What the model runs on, as reports print it.
Result<std::string> name_of_device(ModelDevice device) {
  if (device == ModelDevice::kCpu) return short_cpu_name(cpu_model_name());
  const Result<cuda::DeviceInfo> found = cuda::find_device(0);
  if (!found) return found.error();
  return found->name;
}

PointPlan in_process_plan(const GridFlags& flags, const PointSpec& spec, int64_t num_warmups) {
  PointPlan plan;
  plan.name = spec.name;
  plan.framework = flags.bench.target.framework.empty() ? "millrace" : flags.bench.target.framework;
  plan.version = flags.bench.output.version.empty() ? MILLRACE_VERSION : flags.bench.output.version;
  plan.device = flags.bench.output.device;
  plan.backend = "in-process";
  plan.model = flags.in_process;
  plan.label = flags.bench.output.label;
  plan.tag = flags.bench.output.tag;
  plan.metadata = flags.bench.output.metadata;
  plan.num_prompts = *spec.num_prompts;
  plan.num_warmups = num_warmups;
  plan.dataset.name = "grid";
  plan.dataset.input_len = spec.dataset.input_len;
  plan.dataset.hit_len = spec.dataset.hit_len;
  plan.dataset.output_len = spec.dataset.output_len;
  plan.dataset.seed = spec.dataset.seed;
  plan.dataset.ignores_eos = true;
  plan.load = spec.load;
  plan.goals = flags.bench.output.goals;
  plan.price_per_hour = flags.bench.output.price_per_hour;
  return plan;
}

Result<PointRecord> measure_point_in_process(
    const GridFlags& flags,
    const GridPoint& point,
    LocalModel& model,
    const std::shared_ptr<const TokenCodec>& codec,
    BenchRun& run
) {
  const PointSpec spec = spec_of(flags, point);
  Result<std::unique_ptr<Dataset>> dataset =
      point_dataset(flags.bench, spec, run.nonce(), run.num_points(), codec);
  if (!dataset) return dataset.error();
  LoadOptions options;
  options.load = spec.load;
  options.num_sessions = spec.num_prompts;
  options.num_warmups = *spec.num_warmups;
  model.engine->reset_prefix_cache();
  Result<LoadResult> load =
      run_in_process_load(*model.engine, **dataset, *codec, options, run.stop_token());
  if (!load) return load.error();
  PointRecord record;
  record.plan = in_process_plan(flags, spec, options.num_warmups);
  record.started_unix_ns = load->started_unix_ns;
  record.finished = load->finished;
  record.stop_reason = load->stop_reason;
  record.requests = std::move(load->requests);
  record.client = load->client;
  return record;
}

Result<void> measure_in_process(GridFlags flags, BenchRun& run) {
  Result<LocalModel> model = load_model(flags);
  if (!model) return model.error();
  const Result<ModelDevice> device = choose_device(*device_choice(flags));
  if (!device) return device.error();
  if (flags.bench.output.device.empty()) {
    Result<std::string> name = name_of_device(*device);
    if (!name) return name.error();
    flags.bench.output.device = *std::move(name);
  }
  for (const std::string& line : model->start_lines) print_stderr("{}\n", line);
  // The codec shares the tokenizer with the model, which outlives it.
  const std::shared_ptr<const Tokenizer> tokenizer(&model->text.tokenizer, [](const Tokenizer*) {});
  const std::shared_ptr<const TokenCodec> codec = make_local_codec(tokenizer);
  for (const GridPoint& point : grid_points(flags.batches, flags.lengths)) {
    if (run.is_interrupted()) break;
    Result<PointRecord> record = measure_point_in_process(flags, point, *model, codec, run);
    if (!record) return record.error();
    // The bandwidth that is put beside it is the processor's.
    std::optional<int64_t> step_weight_bytes;
    if (*device == ModelDevice::kCpu) {
      step_weight_bytes = static_cast<int64_t>(model->num_step_weight_bytes);
    }
    run.keep(*std::move(record), step_weight_bytes);
  }
  return {};
}

// What says how a model runs is not passed over where there is none in this process, nor what is
// for a server where there is one.
Result<void> check_grid_flags(const GridFlags& flags) {
  const LoadFlags& load = flags.bench.load;
  const TargetFlags& target = flags.bench.target;
  Result<void> checked = refuse_given(
      {{"--num-prompts", load.num_prompts.has_value()}}, "has no meaning here: --n says how many"
  );
  if (!checked) return checked;
  if (flags.num_prompts.value_or(1) < 1) {
    return invalid_argument(
        fmt::format("--n is {}: expected at least 1", *flags.num_prompts), "--n"
    );
  }
  if (flags.in_process.empty()) {
    return refuse_given(
        {{"--load-format", flags.load_format != "auto"},
         {"--dtype", flags.dtype != "auto"},
         {"--quantization", flags.quantization != "auto"},
         {"--threads", flags.num_threads != 0},
         {"--in-process-device", flags.in_process_device != "auto"},
         {"--speculative-config", flags.speculation.has_value()}},
        "takes --in-process: a server has its own"
    );
  }
  return refuse_given(
      {{"--max-seconds", load.max_seconds.has_value()},
       {"--max-errors", load.max_errors != -1},
       {"--client-threads", load.num_threads != 1},
       {"--precision", load.precision.has_value()},
       {"--flush-cache", load.flushes_cache},
       {"--temperature", target.temperature.has_value()},
       {"--top-p", target.top_p.has_value()},
       {"--top-k", target.top_k.has_value()},
       {"--extra-body", !target.extra_body.empty()}},
      "has no meaning with --in-process"
  );
}

Result<int> grid(const GridFlags& flags, const std::string& command) {
  if (const Result<DeviceChoice> choice = device_choice(flags); !choice) return choice.error();
  if (Result<void> checked = check_grid_flags(flags); !checked) return checked.error();
  Result<std::unique_ptr<BenchRun>> run = BenchRun::start(flags.bench, command);
  if (!run) return run.error();
  (*run)->note(
      flags.in_process.empty() ? measure_server(flags, **run) : measure_in_process(flags, **run)
  );
  (*run)->write(flags.bench.output.report, grid_markdown((*run)->summaries(Formulas::kGrid), {}));
  return (*run)->finish("Batch, input, hit and output lengths");
}

}  // namespace

int run_grid(std::vector<std::string> arguments) {
  GridFlags flags;
  CommandLine line("bench grid", "Measures batch / input / hit / output lengths.");
  add_flags(line, flags);
  const std::string command = command_text("millrace bench grid", arguments);
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  const Result<int> exit_code = grid(flags, command);
  return exit_code ? *exit_code : report("bench grid", exit_code.error());
}

}  // namespace millrace::bench
