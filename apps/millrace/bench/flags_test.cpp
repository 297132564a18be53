// What the flags of `millrace bench` mean, and what is said of those that mean nothing.
#include "bench/flags.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include "base/test_folder.h"
#include "bench/flag_values.h"

namespace millrace::bench {
namespace {

struct Parsed {
  std::optional<int> exit_code;
  BenchFlags flags;
  std::string said;
};

Parsed parse(std::vector<std::string> arguments) {
  Parsed parsed;
  CommandLine line("bench test", "a test");
  add_target_flags(line, parsed.flags.target);
  add_dataset_flags(line, parsed.flags);
  add_load_flags(line, parsed.flags.load);
  add_limit_flags(line, parsed.flags.load);
  add_output_flags(line, parsed.flags.output);
  testing::internal::CaptureStderr();
  parsed.exit_code = line.parse(std::move(arguments));
  parsed.said = testing::internal::GetCapturedStderr();
  return parsed;
}

TEST(BenchFlags, AreVllmsAndSglangs) {
  const Parsed vllm = parse(
      {"--backend",
       "openai-chat",
       "--random-input-len",
       "7",
       "--request-rate",
       "2.5",
       "--max-concurrency",
       "3",
       "--num-prompts",
       "9",
       "--goodput",
       "ttft:200 e2el:1e3",
       "--ramp-up-strategy",
       "linear",
       "--metric-percentiles",
       "50,99.9",
       "--metadata",
       "a=b=c",
       "--served-model-name",
       "m",
       "--disable-ignore-eos"}
  );
  ASSERT_FALSE(vllm.exit_code) << vllm.said;
  EXPECT_EQ(vllm.flags.target.backend, "openai-chat");
  EXPECT_EQ(vllm.flags.target.model, "m");
  EXPECT_FALSE(vllm.flags.target.ignores_eos);
  EXPECT_EQ(vllm.flags.dataset.input_len, 7);
  EXPECT_EQ(vllm.flags.load.request_rate, 2.5);
  EXPECT_EQ(vllm.flags.load.max_concurrency, 3);
  EXPECT_EQ(vllm.flags.load.num_prompts, 9);
  EXPECT_EQ(vllm.flags.load.ramp, RampKind::kLinear);
  EXPECT_EQ(vllm.flags.output.goals, (Goals{.ttft_ms = 200.0, .e2e_ms = 1000.0}));
  EXPECT_EQ(vllm.flags.output.metric_percentiles, (std::vector<double>{50.0, 99.9}));
  EXPECT_EQ(vllm.flags.output.metadata.at(0), std::pair(std::string("a"), std::string("b=c")));

  const Parsed sglang = parse(
      {"--warmup-requests",
       "2",
       "--extra-request-body",
       "{}",
       "--flush-cache",
       "--disable-stream",
       "--tokenize-prompt",
       "--request-rate",
       "inf"}
  );
  ASSERT_FALSE(sglang.exit_code) << sglang.said;
  EXPECT_EQ(sglang.flags.load.num_warmups, 2);
  EXPECT_TRUE(sglang.flags.load.flushes_cache);
  EXPECT_FALSE(sglang.flags.target.is_streamed);
  EXPECT_TRUE(sglang.flags.dataset.sends_token_ids);
  EXPECT_TRUE(std::isinf(sglang.flags.load.request_rate));
}

TEST(BenchFlags, AreRefusedInOneLine) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--request-rate", "0"},
        {"--request-rate", "1,2"},
        {"--goodput", "ttft"},
        {"--goodput", "ttft:-1"},
        {"--goodput", "speed:1"},
        {"--goodput", "e2e:1 ttft:2 e2el:3"},
        {"--metric-percentiles", "101"},
        {"--ramp-up-strategy", "steep"},
        {"--range-ratio-mode", "mine"},
        {"--metadata", "=b"},
        {"--header", "plain"},
        {"--num-prompts", "many"}}) {
    const Parsed parsed = parse(arguments);
    EXPECT_EQ(parsed.exit_code, 2) << arguments[0] << " " << arguments[1];
    EXPECT_EQ(std::ranges::count(parsed.said, '\n'), 1) << parsed.said;
    EXPECT_TRUE(parsed.said.starts_with("millrace bench test: ")) << parsed.said;
    EXPECT_NE(parsed.said.find(arguments[0]), std::string::npos) << parsed.said;
  }
}

TEST(BenchFlags, RatesAreRead) {
  const auto rates = parse_rates("1,0.5,inf");
  ASSERT_TRUE(rates);
  EXPECT_EQ(*rates, (std::vector<double>{1.0, 0.5, std::numeric_limits<double>::infinity()}));
  for (const char* wrong : {"", "0", "-1", "1,", "nan", "1;2", "1 ", "fast"}) {
    EXPECT_FALSE(parse_rates(wrong)) << wrong;
  }
}

TEST(BenchFlags, CountsAreRead) {
  EXPECT_EQ(*parse_counts("1,20,300"), (std::vector<int64_t>{1, 20, 300}));
  for (const char* wrong : {"", "0", "1,,2", "1.5", "99999999999999999999", "x"}) {
    EXPECT_FALSE(parse_counts(wrong)) << wrong;
  }
}

TEST(BenchFlags, LengthPairsAreRead) {
  using Pairs = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(*parse_length_pairs("3000:150,500:1000"), (Pairs{{3000, 150}, {500, 1000}}));
  for (const char* wrong : {"", "1", "1:", ":1", "1:0", "0:1", "1:2:3", "1:2,"}) {
    EXPECT_FALSE(parse_length_pairs(wrong)) << wrong;
  }
}

TEST(BenchFlags, AnAssignmentIsSplitAtItsFirstSign) {
  EXPECT_EQ(*parse_assignment("a=b=c"), std::pair(std::string("a"), std::string("b=c")));
  EXPECT_EQ(*parse_assignment("a="), std::pair(std::string("a"), std::string()));
  EXPECT_FALSE(parse_assignment("=b"));
  EXPECT_FALSE(parse_assignment("ab"));
}

TEST(BenchTarget, HasTheBackendsProtocolAndEndpoint) {
  struct Case {
    const char* backend;
    Protocol protocol;
    const char* endpoint;
  };
  for (const Case& c :
       {Case{"openai", Protocol::kCompletions, "/v1/completions"},
        Case{"vllm-chat", Protocol::kChat, "/v1/chat/completions"},
        Case{"sglang", Protocol::kGenerate, "/generate"},
        Case{"sglang-oai", Protocol::kCompletions, "/v1/completions"}}) {
    const auto target = target_of({.backend = c.backend});
    ASSERT_TRUE(target) << c.backend;
    EXPECT_EQ(target->protocol, c.protocol);
    EXPECT_EQ(target->endpoint, c.endpoint);
    EXPECT_EQ(target->url.host_field(), "127.0.0.1:8000");
    EXPECT_EQ(target->sampling.temperature, 0.0);
    EXPECT_TRUE(target->sampling.ignores_eos);
  }
}

TEST(BenchTarget, ABaseUrlMayEndWithV1AsOpenAisClientsHaveIt) {
  const auto target = target_of({.base_url = "http://gpu:30000/proxy/v1"});
  ASSERT_TRUE(target);
  EXPECT_EQ(target->url.path + target->endpoint, "/proxy/v1/completions");
  const auto other = target_of({.base_url = "http://gpu:1"}, "http://other:2");
  ASSERT_TRUE(other);
  EXPECT_EQ(other->url.host_field(), "other:2") << "a command's own URL wins";
}

TEST(BenchTarget, ErrorsNameTheFlag) {
  const auto where = [](const TargetFlags& flags) {
    const auto target = target_of(flags);
    return target ? std::string() : target.error().where;
  };
  EXPECT_EQ(where({.backend = "mine"}), "--backend");
  EXPECT_EQ(where({.base_url = "somewhere"}), "--base-url");
  EXPECT_EQ(where({.endpoint = "v1"}), "--endpoint");
  EXPECT_EQ(where({.extra_body = "[1]"}), "--extra-body");
  EXPECT_EQ(where({.extra_body = "{"}), "--extra-body");
  EXPECT_EQ(where({.request_timeout_s = 0.0}), "--request-timeout-sec");
  EXPECT_EQ(where({.request_timeout_s = std::nan("")}), "--request-timeout-sec");
}

std::string refused_flag(const std::function<void(BenchFlags&)>& change) {
  BenchFlags flags;
  change(flags);
  const Result<void> checked = check_flags(flags);
  if (checked) return {};
  EXPECT_TRUE(checked.error().message.starts_with(checked.error().where)) << "it is named";
  return checked.error().where;
}

TEST(BenchFlags, NumbersWithoutSenseAreRefusedBeforeAnythingIsMeasured) {
  EXPECT_EQ(refused_flag([](BenchFlags&) {}), "");
  const auto whole_answers_with = [](Goals goals) {
    return refused_flag([&](BenchFlags& flags) {
      flags.target.is_streamed = false;
      flags.output.goals = goals;
    });
  };
  EXPECT_EQ(whole_answers_with({.e2e_ms = 1.0}), "");
  EXPECT_EQ(whole_answers_with({.tpot_ms = 1.0}), "--goodput");
  EXPECT_EQ(whole_answers_with({.itl_ms = 1.0}), "--goodput");
  EXPECT_EQ(refused_flag([](BenchFlags& f) { f.load.num_prompts = 0; }), "--num-prompts");
  EXPECT_EQ(refused_flag([](BenchFlags& f) { f.load.num_warmups = -1; }), "--num-warmups");
  EXPECT_EQ(refused_flag([](BenchFlags& f) { f.load.num_warmups = 0; }), "");
  EXPECT_EQ(refused_flag([](BenchFlags& f) { f.load.max_concurrency = 0; }), "--max-concurrency");
  EXPECT_EQ(refused_flag([](BenchFlags& f) { f.load.num_threads = 0; }), "--client-threads");
  EXPECT_EQ(refused_flag([](BenchFlags& f) { f.load.max_seconds = 0.0; }), "--max-seconds");
  EXPECT_EQ(refused_flag([](BenchFlags& f) { f.load.max_seconds = 1e300; }), "--max-seconds");
  EXPECT_EQ(refused_flag([](BenchFlags& f) { f.load.grace_s = -1.0; }), "--grace-sec");
  EXPECT_EQ(refused_flag([](BenchFlags& f) { f.load.grace_s = 0.0; }), "");
  EXPECT_EQ(
      refused_flag([](BenchFlags& f) { f.load.idle_timeout_s = -1.0; }), "--idle-timeout-sec"
  );
  EXPECT_EQ(
      refused_flag([](BenchFlags& f) { f.target.ready_timeout_s = std::nan(""); }),
      "--ready-check-timeout-sec"
  );
  EXPECT_EQ(refused_flag([](BenchFlags& f) { f.load.precision = 0.0; }), "--precision");
  EXPECT_EQ(refused_flag([](BenchFlags& f) { f.load.max_errors = -5; }), "--max-errors");
  EXPECT_EQ(refused_flag([](BenchFlags& f) { f.load.burstiness = -1.0; }), "--burstiness");
}

TEST(BenchFlags, NumbersOutOfRangeAreRefused) {
  for (const double number : {std::nan(""), -0.5, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(refused_flag([&](BenchFlags& f) { f.target.temperature = number; }), "--temperature");
    EXPECT_EQ(refused_flag([&](BenchFlags& f) { f.target.top_p = number; }), "--top-p");
    EXPECT_EQ(
        refused_flag([&](BenchFlags& f) { f.output.price_per_hour = number; }), "--price-per-hour"
    );
  }
  EXPECT_EQ(refused_flag([](BenchFlags& f) { f.target.top_k = -2; }), "--top-k");
  EXPECT_EQ(refused_flag([](BenchFlags& f) { f.output.weight_bytes = 0; }), "--weight-bytes");
  const auto least = [](BenchFlags& f) {
    f.target.temperature = f.target.top_p = f.output.price_per_hour = 0.0;
    f.target.top_k = -1;
  };
  EXPECT_EQ(refused_flag(least), "");
  const Parsed seed = parse({"--seed", "-1"});
  EXPECT_EQ(seed.exit_code, 2);
  EXPECT_NE(seed.said.find("--seed"), std::string::npos) << seed.said;
}

TEST(BenchFlags, WhatHasNoEffectIsNotPassedOver) {
  const auto bursty = [](BenchFlags& f) { f.load.burstiness = 3.0; };
  EXPECT_EQ(refused_flag(bursty), "--burstiness");
  EXPECT_EQ(refused_flag([&](BenchFlags& f) { bursty(f), f.load.request_rate = 2.0; }), "");
  EXPECT_EQ(refused_flag([&](BenchFlags& f) { bursty(f), f.load.ramp = RampKind::kLinear; }), "");
  const auto repeated = [](BenchFlags& f) { f.has_nonce = false; };
  EXPECT_EQ(refused_flag(repeated), "");
  EXPECT_EQ(refused_flag([&](BenchFlags& f) { repeated(f), f.dataset.path = "x"; }), "--no-nonce");
}

TEST(BenchFlags, RampsAreNotPassedOver) {
  EXPECT_EQ(refused_flag([](BenchFlags& f) { f.load.ramp_start_rps = 1; }), "--ramp-up-start-rps");
  EXPECT_EQ(refused_flag([](BenchFlags& f) { f.load.ramp_end_rps = 9; }), "--ramp-up-end-rps");
  const auto ramp = [](BenchFlags& f) {
    f.load.ramp = RampKind::kLinear;
    f.load.ramp_start_rps = 1.0;
    f.load.ramp_end_rps = 9.0;
  };
  EXPECT_EQ(refused_flag(ramp), "");
  const auto rate_too = [&](BenchFlags& f) {
    ramp(f);
    f.load.request_rate = 2.0;
  };
  EXPECT_EQ(refused_flag(rate_too), "--request-rate");
}

TEST(BenchFlags, AFileInAFolderThatIsNotThereIsRefused) {
  const std::string path = testing::TempDir() + "/no such folder/x";
  EXPECT_EQ(refused_flag([&](BenchFlags& f) { f.output.records = path; }), "--records");
  EXPECT_EQ(refused_flag([&](BenchFlags& f) { f.output.html = path; }), "--html");
  EXPECT_EQ(refused_flag([&](BenchFlags& f) { f.output.report = path; }), "--output");
  EXPECT_EQ(refused_flag([&](BenchFlags& f) { f.output.records = testing::TempDir() + "/x"; }), "");
  EXPECT_EQ(refused_flag([&](BenchFlags& f) { f.output.report = "-"; }), "");
}

// One would take the place of the other.
TEST(BenchFlags, TwoOutputsAreTwoFiles) {
  const TestFolder folder;
  std::filesystem::create_directory(folder.path("sub"));
  const auto refused = [](const std::string& html, const std::string& report) {
    return refused_flag([&](BenchFlags& f) {
      f.output.html = html;
      f.output.report = report;
    });
  };
  const std::string path = folder.path("x");
  EXPECT_EQ(refused(path, path), "--output");
  EXPECT_EQ(refused(path, folder.path("sub/../x")), "--output");
  EXPECT_EQ(refused("x", "./x"), "--output");
  EXPECT_EQ(refused(path, folder.path("y")), "");
  EXPECT_EQ(refused("/dev/null", "/dev/null"), "");
  EXPECT_EQ(refused("-", "-"), "");
  folder.write("x", "there");
  std::filesystem::create_symlink(path, folder.path("link"));
  EXPECT_EQ(refused(path, folder.path("link")), "--output");

  OutputFlags output;
  output.records = path;
  const Result<void> more = check_output_files(output, {{"--json", path}});
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().where, "--json");
  EXPECT_FALSE(refuse_overwriting("--output", folder.path("link"), {folder.path("y"), path}));
  EXPECT_TRUE(refuse_overwriting("--output", folder.path("y"), {path}));
}

}  // namespace
}  // namespace millrace::bench
