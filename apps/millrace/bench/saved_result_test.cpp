// The names that vLLM's and SGLang's clients give their files.
#include "bench/saved_result.h"

#include <gtest/gtest.h>

#include <ctime>

namespace millrace::bench {
namespace {

PointRecord record() {
  PointRecord record;
  record.started_unix_ns = 1'700'000'000'000'000'000;
  record.plan.backend = "vllm";
  record.plan.model = "org/Model-7B";
  record.plan.num_prompts = 64;
  record.plan.dataset.name = "random";
  record.plan.dataset.input_len = 512;
  record.plan.dataset.output_len = 16;
  return record;
}

// Files are named by the local time.
std::string local(const char* format) {
  const std::time_t at = 1'700'000'000;
  std::tm fields{};
  ::localtime_r(&at, &fields);
  char text[64];
  return std::string(text, std::strftime(text, sizeof text, format, &fields));
}

TEST(SavedResult, IsNamedAsVllmDoes) {
  PointRecord point = record();
  const std::string time = local("%Y%m%d-%H%M%S");
  EXPECT_EQ(vllm_file_name(point), "vllm-infqps-Model-7B-" + time + ".json");
  point.plan.load.request_rate = 2.5;
  point.plan.load.max_concurrency = 8;
  point.plan.label = "mine";
  EXPECT_EQ(vllm_file_name(point), "mine-2.5qps-concurrency8-Model-7B-" + time + ".json");
  point.plan.label = "a/b";  // once a folder that was not there, found out after the measuring
  EXPECT_EQ(vllm_file_name(point), "a_b-2.5qps-concurrency8-Model-7B-" + time + ".json");
}

TEST(SavedResult, IsNamedAsSglangDoes) {
  PointRecord point = record();
  const std::string day = local("%m%d");
  EXPECT_EQ(sglang_file_name(point), "vllm_" + day + "_64_512_16.jsonl");
  point.plan.dataset.name = "sharegpt";
  EXPECT_EQ(sglang_file_name(point), "vllm_" + day + "_64_sharegpt.jsonl");
}

TEST(SavedResult, FlagsImplyOneAnother) {
  const auto parse = [](std::vector<std::string> arguments) {
    SavedResultFlags flags;
    CommandLine line("bench test", "a test");
    add_saved_result_flags(line, flags);
    EXPECT_FALSE(line.parse(std::move(arguments)));
    return flags;
  };
  EXPECT_FALSE(parse({}).is_saved);
  EXPECT_FALSE(parse({"--save-result"}).keeps_texts());
  const SavedResultFlags detailed = parse({"--save-detailed"});
  EXPECT_TRUE(detailed.is_saved && detailed.is_detailed && detailed.keeps_texts());
  const SavedResultFlags appended = parse({"--append-result"});
  EXPECT_TRUE(appended.is_saved && appended.is_appended);
  EXPECT_TRUE(parse({"--output-details"}).keeps_texts());
  EXPECT_EQ(
      parse({"--percentile-metrics", "ttft,e2el"}).vllm_options({}).metrics,
      (std::vector<std::string>{"ttft", "e2el"})
  );
}

TEST(SavedResult, WhatWouldBePassedOverIsRefused) {
  const auto refused = [](const SavedResultFlags& flags, bool is_sglang) {
    const Result<void> checked = check(flags, is_sglang);
    return checked ? std::string() : checked.error().where;
  };
  EXPECT_EQ(refused({}, true), "");
  EXPECT_EQ(refused({.file_name = "x"}, false), "--result-filename");
  EXPECT_EQ(refused({.directory = "x"}, false), "--result-dir");
  EXPECT_EQ(refused({.is_sglang_detailed = true}, false), "--output-details");
  EXPECT_EQ(refused({.metrics = {"ttft"}}, true), "--percentile-metrics");
  EXPECT_EQ(refused({.metrics = {"ttft"}}, false), "");
  const SavedResultFlags same = {.is_saved = true, .file_name = "x", .sglang_file = "./x"};
  EXPECT_EQ(refused(same, false), "--output-file");
}

}  // namespace
}  // namespace millrace::bench
