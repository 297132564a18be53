// What the prefix cache saves: the time to the first token of a prompt that is new, of one that was
// computed before but for its last token, and of an exact repeat, beside the time of one decode
// step at the same context. In this process, without HTTP; the four are measured in turn, so that a
// busy machine slows all of them. Exits with 1 if the cache did not do what is measured.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/available.h"
#include "base/rng.h"
#include "engine/event_queue.h"
#include "model_flags.h"
#include "model_location.h"
#include "server/local_model.h"

namespace millrace {
namespace {

struct Options {
  std::string model = kDefaultModel;
  int num_prompt_tokens = 1024;
  int num_rounds = 15;
  int num_threads = 0;
};

// One request, alone.
struct Answer {
  double ttft_ms = 0.0;         // from submit to the first token
  std::vector<double> gaps_ms;  // between tokens after it
  int32_t num_cached_tokens = 0;
};

Answer ask(Engine& engine, const std::vector<TokenId>& prompt, int32_t max_tokens) {
  EngineRequest request{.prompt = prompt};
  request.sampling.temperature = 0.0F;
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  auto queue = std::make_shared<EventQueue>(request);
  const TimePoint begin = Clock::now();
  const Result<RequestId> id = engine.submit(request, queue);
  CHECK(id.ok(), id.error().message);
  Answer answer;
  std::optional<TimePoint> last;
  while (true) {
    const EngineEvent event = queue->next();
    const TimePoint now = Clock::now();
    if (const auto* finished = std::get_if<FinishedEvent>(&event)) {
      answer.num_cached_tokens = finished->timings.num_cached_tokens;
      return answer;
    }
    if (!last) {
      answer.ttft_ms = to_milliseconds(now - begin);
    } else {
      answer.gaps_ms.push_back(to_milliseconds(now - *last));
    }
    last = now;
  }
}

struct Spread {
  double median = 0.0;
  double least = 0.0;
  double most = 0.0;
};

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  return {.median = values[values.size() / 2], .least = values.front(), .most = values.back()};
}

// What was measured in each round, in milliseconds.
struct Figures {
  std::vector<double> cold;
  std::vector<double> all_but_one;
  std::vector<double> repeat;
  std::vector<double> decode;
};

bool measure(Engine& engine, const Options& options, Figures& figures) {
  constexpr int32_t kNumDecodeSteps = 8;
  const auto vocab_size = static_cast<uint64_t>(engine.limits().vocab_size);
  const auto num_tokens = static_cast<size_t>(options.num_prompt_tokens);
  Rng rng(1);
  for (int round = -1; round < options.num_rounds; ++round) {  // the first one warms up
    std::vector<TokenId> prompt(num_tokens);
    for (TokenId& id : prompt) id = static_cast<TokenId>(rng.below(vocab_size));
    const Answer cold = ask(engine, prompt, 1);
    const Answer repeat = ask(engine, prompt, 1);
    const Answer decode = ask(engine, prompt, 1 + kNumDecodeSteps);
    prompt.back() = static_cast<TokenId>((prompt.back() + 1) % static_cast<TokenId>(vocab_size));
    const Answer all_but_one = ask(engine, prompt, 1);
    const bool is_as_said = cold.num_cached_tokens == 0 &&
                            repeat.num_cached_tokens == options.num_prompt_tokens &&
                            all_but_one.num_cached_tokens == options.num_prompt_tokens - 1;
    if (!is_as_said) {
      fmt::print(
          stderr,
          "of {} tokens, {} were cached of a new prompt, {} of one that differs in the last, and "
          "{} of a repeat\n",
          num_tokens,
          cold.num_cached_tokens,
          all_but_one.num_cached_tokens,
          repeat.num_cached_tokens
      );
      return false;
    }
    if (round < 0) continue;
    figures.cold.push_back(cold.ttft_ms);
    figures.all_but_one.push_back(all_but_one.ttft_ms);
    figures.repeat.push_back(repeat.ttft_ms);
    figures.decode.push_back(spread_of(decode.gaps_ms).median);
  }
  return true;
}

void print_figures(const Options& options, const Figures& figures) {
  fmt::print(
      "{} prompt tokens, {} rounds; milliseconds, median (least to most)\n",
      options.num_prompt_tokens,
      options.num_rounds
  );
  const auto print_row = [](const char* name, const std::vector<double>& values) {
    const Spread spread = spread_of(values);
    fmt::print(
        "{:<34}{:>10.2f}   ({:.2f} to {:.2f})\n", name, spread.median, spread.least, spread.most
    );
    return spread.median;
  };
  const double cold = print_row("first token, new prompt", figures.cold);
  print_row("first token, all but the last cached", figures.all_but_one);
  const double repeat = print_row("first token, exact repeat", figures.repeat);
  const double decode = print_row("one decode step", figures.decode);
  const double most = 0.05 * cold + decode;
  fmt::print(
      "an exact repeat takes {:.2f} % of a new prompt; 5 % and a decode step would be {:.2f} ms: "
      "{}\n",
      100.0 * repeat / cold,
      most,
      repeat <= most ? "kept" : "NOT kept"
  );
}

Result<LocalModel> load(const Options& options) {
  const Result<std::string> path = locate_model(options.model);
  if (!path) return path.error();
  LocalModelOptions model;
  model.text.model = *path;
  model.available_bytes = available_memory();
  model.num_threads =
      options.num_threads > 0 ? static_cast<size_t>(options.num_threads) : num_available_cpus();
  model.engine.max_model_len = options.num_prompt_tokens + 64;
  return load_local_model(std::move(model));
}

int run(const Options& options) {
  const Result<LocalModel> model = load(options);
  if (!model) {
    fmt::print(stderr, "prefix_cache_bench: {}\n", model.error().message);
    return 1;
  }
  for (const std::string& line : model->start_lines) fmt::print("{}\n", line);
  Figures figures;
  if (!measure(*model->engine, options, figures)) return 1;
  print_figures(options, figures);
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  millrace::Options options;
  CLI::App app("What the prefix cache saves, in this process.");
  app.add_option("model", options.model, "as for `millrace serve`")->capture_default_str();
  app.add_option("--prompt-tokens", options.num_prompt_tokens)->capture_default_str();
  app.add_option("--rounds", options.num_rounds)->capture_default_str();
  app.add_option("--threads", options.num_threads, "0: one for each CPU")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return millrace::run(options);
}
