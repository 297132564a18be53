// `millrace bench engine`: how fast a model computes in this process, beside what the machine can
// do.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/math.h"
#include "bench/bench_run.h"
#include "bench/commands.h"
#include "bench/engine_report.h"
#include "bench/engine_speed.h"
#include "bench/flag_values.h"
#include "command_line.h"
#include "cuda/device_meter.h"
#include "failure.h"
#include "interrupt_signal.h"
#include "kernels/machine_limits.h"
#include "kernels/quantized/encode_rows.h"
#include "kernels/quantized/linear_quantized.h"
#include "model_flags.h"
#include "progress_bar.h"
#include "terminal.h"

namespace millrace::bench {
namespace {

struct EngineFlags {
  std::string model = kDefaultModel;
  std::string load_format = "auto";
  std::string device = "auto";
  std::string quantization = "auto";
  std::string dtype = "auto";
  std::string isa = "auto";
  int32_t num_threads = 0;
  std::vector<int64_t> batch_sizes = {1, 4, 8};
  std::vector<int64_t> context_lens = {0};
  int64_t prompt_len = 512;
  int64_t output_len = 64;
  int32_t num_repetitions = 5;
  std::optional<int64_t> max_num_batched_tokens;
  std::optional<int64_t> kv_cache_memory_bytes;
  bool json = false;
};

constexpr const char* kFooter =
    "Drives the model itself: no HTTP, no scheduler, no sampler (a device draws its tokens). "
    "prefill: --prompt-len tokens of "
    "each sequence at\n"
    "once; decode: --output-len steps of one token each; both after --context-len tokens in the KV "
    "cache. Before\n"
    "and after each run, what all threads read from memory and the multiply-adds they start are "
    "measured; share is\n"
    "the least time that the nearer of the two allows (all weights once a step and the KV cache "
    "once; two operations\n"
    "for each multiply-add of matrix products and attention), of the time taken. A model that "
    "fits in the caches may\n"
    "be above 100 %.\n"
    "\n"
    "Examples:\n"
    "  millrace bench engine\n"
    "  millrace bench engine configs/Qwen2-0.5B --load-format dummy --batch-size 1,4,8 "
    "--context-len 0,8192\n"
    "  millrace bench engine model.gguf --prompt-len 0 --output-len 128 --json";

void add_counts(
    CommandLine& line,
    const std::string& names,
    std::vector<int64_t>& counts,
    int64_t least,
    const std::string& help
) {
  line.add_value(
      names,
      [&counts, least](const std::string& text) -> Result<void> {
        Result<std::vector<int64_t>> parsed = parse_counts(text, least);
        if (!parsed) return parsed.error();
        counts = *std::move(parsed);
        return {};
      },
      help
  );
}

void add_flags(CommandLine& line, EngineFlags& flags) {
  line.add_positional(
      "MODEL", flags.model, "a Hugging Face directory, a .gguf file, or smollm2 (the default)"
  );
  line.add("--load-format", flags.load_format, "auto, or dummy: made-up weights for any config");
  line.add("--device", flags.device, "what computes: cpu, cuda, or auto (cpu)");
  line.add(
      "--quantization", flags.quantization, "of the weights: auto, none, int8, w8a8, int4 or stored"
  );
  line.add("--dtype", flags.dtype, "auto, float32, float16 or bfloat16");
  line.add("--prompt-len", flags.prompt_len, "tokens of each prompt (512); 0: no prefill");
  line.add("--output-len", flags.output_len, "steps of each decode (64); 0: no decode");
  add_counts(
      line,
      "--batch-size,--b",
      flags.batch_sizes,
      1,
      "sequences at once, several with commas (1,4,8)"
  );
  add_counts(
      line,
      "--context-len",
      flags.context_lens,
      0,
      "tokens in the KV cache before, several with commas (0)"
  );
  line.add("--repetitions", flags.num_repetitions, "of all cases in turn (5)");
  line.add("--threads", flags.num_threads, "compute threads; 0: one per CPU");
  line.add(
      "--isa",
      flags.isa,
      "instructions: auto (the fastest), or reference, amx-reference, avx2, avx512, avx512-vnni, "
      "avx512-dot, amx"
  );
  line.add_size(
      "--max-num-batched-tokens",
      flags.max_num_batched_tokens,
      "most tokens of one step, of a prompt or of a decode's batch (as serve)"
  );
  line.add_size(
      "--kv-cache-memory-bytes", flags.kv_cache_memory_bytes, "memory of the KV cache (up to 4G)"
  );
  line.add_flag("--json", flags.json, "print one JSON object a line");
  line.set_footer(kFooter);
}

Error wrong_value(const std::string& flag, const std::string& expected, const std::string& value) {
  return invalid_argument(fmt::format("{} must be {}, got '{}'", flag, expected, value), flag);
}

// "a or b or c".
std::string choices(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += " or ";
    text += name;
  }
  return text;
}

Result<void> check_flags(const EngineFlags& flags) {
  constexpr int64_t kLengthMax = int64_t{1} << 24;  // far beyond any model; sums stay in range
  const std::pair<const char*, int64_t> lengths[] = {
      {"--prompt-len", flags.prompt_len},
      {"--output-len", flags.output_len},
      {"--context-len", *std::ranges::max_element(flags.context_lens)},
  };
  for (const auto& [name, value] : lengths) {
    if (value < 0 || value > kLengthMax) {
      return wrong_value(name, fmt::format("0 to {}", kLengthMax), std::to_string(value));
    }
  }
  if (flags.device == "cuda" && flags.isa != "auto") {
    return invalid_argument("--isa is of --device cpu", "--isa");
  }
  if (flags.prompt_len == 0 && flags.output_len == 0) {
    return invalid_argument("--prompt-len and --output-len are both 0", "--prompt-len");
  }
  constexpr int64_t kBatchMax = 65536;
  if (const int64_t most = *std::ranges::max_element(flags.batch_sizes); most > kBatchMax) {
    return wrong_value("--batch-size", fmt::format("1 to {}", kBatchMax), std::to_string(most));
  }
  if (const int64_t most = *std::ranges::max_element(flags.batch_sizes);
      flags.max_num_batched_tokens.value_or(most) < most) {
    return wrong_value(
        "--max-num-batched-tokens",
        fmt::format("at least {}, the largest --batch-size", most),
        std::to_string(*flags.max_num_batched_tokens)
    );
  }
  if (flags.num_repetitions < 1 || flags.num_repetitions > 100000) {
    return wrong_value("--repetitions", "1 to 100000", std::to_string(flags.num_repetitions));
  }
  return {};
}

Result<Isa> isa_of(const std::string& name) {
  if (name == "auto") return best_isa();
  std::vector<std::string_view> names = {"auto"};
  for (const Isa isa : supported_isas()) {
    if (name_of(isa) == name) return isa;
    names.push_back(name_of(isa));
  }
  return wrong_value("--isa", choices(names) + " on this machine", name);
}

// Of the longest sequence: its context and what is computed after it.
int64_t sequence_len(const EngineFlags& flags) {
  return *std::ranges::max_element(flags.context_lens) +
         std::max(flags.prompt_len, flags.output_len);
}

Result<LocalRunner> load(const EngineFlags& flags, Isa isa) {
  ModelFlags model;
  model.model = flags.model;
  model.load_format = flags.load_format;
  model.device = flags.device;
  model.dtype = flags.dtype;
  model.quantization = flags.quantization;
  model.num_threads = flags.num_threads;
  model.kv_cache_memory_bytes = flags.kv_cache_memory_bytes;
  model.max_num_batched_tokens = flags.max_num_batched_tokens;
  model.max_model_len = sequence_len(flags);
  const int64_t batch_size = *std::ranges::max_element(flags.batch_sizes);
  model.max_num_seqs = static_cast<int32_t>(batch_size);
  Result<LocalModelOptions> options = model_options_of(model);
  if (!options) return options.error();
  options->isa = isa;
  options->engine.max_logit_rows = options->engine.max_num_seqs;
  options->available_bytes -=
      static_cast<int64_t>(MachineLimits::num_bytes_beyond_caches(options->num_threads));
  ProgressBar bar("loading");
  options->on_progress = [&bar](double fraction) { bar.show(fraction); };
  Result<LocalRunner> runner = load_local_runner(*options);
  if (runner || runner.error().where != "--max-model-len") return runner;
  return invalid_argument(
      fmt::format(
          "--context-len and what is computed after it are {} tokens, more than the model was made "
          "for",
          sequence_len(flags)
      ),
      "--context-len"
  );
}

std::vector<SpeedCase> cases_of(const EngineFlags& flags) {
  std::vector<SpeedCase> cases;
  for (const auto& [phase, length] :
       {std::pair(SpeedPhase::kPrefill, flags.prompt_len),
        std::pair(SpeedPhase::kDecode, flags.output_len)}) {
    if (length == 0) continue;
    for (const int64_t context_len : flags.context_lens) {
      for (const int64_t batch_size : flags.batch_sizes) {
        cases.push_back(
            {.phase = phase,
             .batch_size = static_cast<int32_t>(batch_size),
             .context_len = static_cast<int32_t>(context_len),
             .num_tokens = static_cast<int32_t>(length)}
        );
      }
    }
  }
  return cases;
}

Result<SpeedLayout> layout_of(const EngineFlags& flags, const LocalRunner& runner) {
  const ModelRunner& model = *runner.model;
  const int32_t block_size = model.block_size();
  const int64_t blocks_each = div_ceil(sequence_len(flags), int64_t{block_size});
  const int64_t batch_size = *std::ranges::max_element(flags.batch_sizes);
  if (blocks_each * batch_size > model.num_blocks()) {
    return Error{
        ErrorCode::kResourceExhausted,
        fmt::format(
            "the KV cache has {} blocks of {} tokens, and {} sequences of {} tokens take {}: "
            "--kv-cache-memory-bytes gives it more",
            model.num_blocks(),
            block_size,
            batch_size,
            sequence_len(flags),
            blocks_each * batch_size
        ),
        {}};
  }
  return SpeedLayout{
      .block_size = block_size,
      .blocks_per_sequence = static_cast<int32_t>(blocks_each),
      .max_num_batched_tokens = runner.max_num_batched_tokens,
      .vocab_size = model.vocab_size(),
  };
}

// What the factors of the layers' matrices are when they are multiplied.
DotOperands operands_of(const LocalRunner& runner, Isa isa) {
  if (!runner.quantization) {
    return runner.dtype == DType::kBFloat16 ? DotOperands::kBFloat16 : DotOperands::kFloat32;
  }
  if (multiplies_bfloat16(isa, runner.quantization->format)) return DotOperands::kBFloat16;
  const InputForm form = input_form(isa, runner.quantization->rounding);
  return form == InputForm::kWords ? DotOperands::kInt16 : DotOperands::kInt8;
}

// Whose inputs are multiplied byte by byte; none where they are multiplied at once.
std::optional<Quantization> bytes_multiplied_by(const LocalRunner& runner, Isa isa) {
  if (operands_of(runner, isa) != DotOperands::kInt8) return {};
  return runner.quantization;
}

// What is measured beside the model, and what rows say of it.
struct Limits {
  std::function<LimitReading()> read;
  SpeedSubject subject;
};

Result<Limits> limits_of(const LocalRunner& runner, Isa isa) {
  Limits limits;
  if (runner.device == ModelDevice::kCuda) {
    Result<std::unique_ptr<cuda::DeviceMeter>> opened = cuda::open_device_meter(0);
    if (!opened) return opened.error();
    const std::shared_ptr<cuda::DeviceMeter> meter = *std::move(opened);
    limits.read = [meter] {
      return LimitReading{meter->read_bytes_per_second(), meter->operations_per_second()};
    };
    limits.subject.device = "cuda";
    limits.subject.peak = "bf16 product by cuBLASLt";
    return limits;
  }
  Result<MachineLimits> measured = MachineLimits::prepare(*runner.threads, isa);
  if (!measured) return measured.error();
  const auto machine = std::make_shared<MachineLimits>(*std::move(measured));
  const DotInstruction instruction = fastest_dot_instruction(operands_of(runner, isa), isa);
  limits.read = [machine, instruction] {
    return LimitReading{
        machine->measure_read_bytes_per_second(),
        machine->measure_operations_per_second(instruction)};
  };
  limits.subject.isa = name_of(isa);
  limits.subject.peak = name_of(instruction);
  limits.subject.num_threads = runner.threads->num_threads();
  return limits;
}

Result<int> measure(
    const EngineFlags& flags, LocalRunner& runner, Isa isa, InterruptSignal& signal
) {
  const Result<SpeedLayout> layout = layout_of(flags, runner);
  if (!layout) return layout.error();
  Result<Limits> limits = limits_of(runner, isa);
  if (!limits) return limits.error();
  for (const std::string& line : runner.start_lines) print_stderr("{}\n", line);

  std::optional<ProgressBar> bar("measuring");
  SpeedPlan plan;
  plan.cases = cases_of(flags);
  plan.layout = *layout;
  plan.num_repetitions = flags.num_repetitions;
  plan.read_limits = limits->read;
  plan.work_of = [&, quantization = bytes_multiplied_by(runner, isa)](const ForwardBatch& batch) {
    return forward_work(runner.config, runner.bytes, quantization, batch);
  };
  plan.on_progress = [&bar](double fraction, const std::string& what) {
    bar->show(fraction, what);
  };

  std::stop_source stop;
  signal.set_handler([stop]() mutable { stop.request_stop(); });
  const std::vector<SpeedResult> results = measure_speed(*runner.model, plan, stop.get_token());
  bar.reset();
  SpeedSubject& subject = limits->subject;
  subject.model = flags.model;
  // As it runs, which a model that `millrace quantize` made says itself.
  subject.quantization = runner.quantization ? std::string(name_of(*runner.quantization)) : "none";
  subject.dtype = runner.dtype;
  fmt::print(
      "{}", flags.json ? speed_json_lines(subject, results) : speed_markdown(subject, results)
  );
  return stop.stop_requested() ? kExitInterrupted : 0;
}

Result<int> engine(const EngineFlags& flags) {
  if (auto checked = check_flags(flags); !checked) return checked.error();
  const Result<Isa> isa = isa_of(flags.isa);
  if (!isa) return isa.error();
  Result<std::unique_ptr<InterruptSignal>> signal = InterruptSignal::make({SIGINT, SIGTERM});
  if (!signal) return signal.error();
  Result<LocalRunner> runner = load(flags, *isa);
  if (!runner) return runner.error();
  return measure(flags, *runner, *isa, **signal);
}

}  // namespace

int run_engine(std::vector<std::string> arguments) {
  EngineFlags flags;
  CommandLine line(
      "bench engine", "Measures prefill and decode in this process, beside the machine's limits."
  );
  add_flags(line, flags);
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  const Result<int> exit_code = engine(flags);
  return exit_code ? *exit_code : report("bench engine", exit_code.error());
}

}  // namespace millrace::bench
