#include "results/record_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/test_folder.h"
#include "results/record_fixture.h"

namespace millrace::bench {
namespace {

using ::testing::HasSubstr;

class RecordFile : public ::testing::Test {
 protected:
  std::string path() const { return folder_.path("points.jsonl"); }
  std::string content() const { return folder_.read("points.jsonl"); }
  void write(std::string_view text) const { folder_.write("points.jsonl", text); }

 private:
  TestFolder folder_;
};

PointRecord full_record() {
  PointRecord record = make_closed_loop(2, 3, {});
  PointPlan& plan = record.plan;
  plan = {
      .name = "n",
      .framework = "vllm",
      .version = "1.0",
      .device = "7K83;A10",
      .backend = "openai",
      .base_url = "http://h:1",
      .endpoint = "/v1/completions",
      .is_streamed = false,
      .model = "m\"\n\xC3\xA9",
      .tokenizer = "t",
      .label = "l",
      .tag = "g",
      .metadata = {{"b", "1"}, {"a", "2"}, {"b", "3"}},
      .num_prompts = 3,
      .num_warmups = 1,
      .max_seconds = 0.1};
  plan.dataset = {
      .name = "random",
      .input_len = 1,
      .output_len = 2,
      .hit_len = 3,
      .range_ratio = 0.1,
      .range_ratio_mode = "vllm",
      .sharegpt_output_len = 4,
      .seed = std::numeric_limits<uint64_t>::max(),
      .ignores_eos = true};
  plan.load = {
      .kind = LoadKind::kGamma,
      .burstiness = 1.0 / 3.0,
      .max_concurrency = 7,
      .ramp = "linear",
      .ramp_start_rps = 1e-300,
      .ramp_end_rps = 1e300};
  plan.goals = {.ttft_ms = 1.5, .tpot_ms = 2.5, .itl_ms = 3.5, .e2e_ms = 4.5};
  plan.price_per_hour = 2.99;
  record.started_unix_ns = 1'764'000'000'123'456'789;
  record.first_dispatch = Nanos(-5);
  record.stop_reason = StopReason::kPrecise;
  record.client = {
      .num_threads = 2,
      .cpu_seconds = 0.25,
      .busiest_thread_share = 0.125,
      .num_connections = 8,
      .open_files_limit = 1024};
  ServerSample sample;
  sample.at = Nanos(-1'000'000);
  record.server.push_back(sample);
  sample.num_running = sample.num_waiting = sample.kv_usage = 0.5;
  sample.prefix_queries = sample.prefix_hits = sample.num_preemptions = 3.0;
  sample.prompt_tokens = sample.generation_tokens = 1e15;
  sample.cpu_seconds = sample.resident_bytes = 7.0;
  sample.gpu_utilization = sample.gpu_memory_bytes = sample.gpu_watts = 0.7;
  record.server.push_back(sample);
  record.calibration = Calibration{
      .ttft_p50_ms = 0.1,
      .ttft_p99_ms = 0.2,
      .itl_p50_ms = 0.3,
      .itl_p99_ms = 0.4,
      .requests_per_s = 50'000};
  record.limits = {
      {.name = "memory read", .value = 20.5, .unit = "GB/s", .share = 0.3},
      {.name = "flops", .value = 1, .unit = "T", .share = {}}};
  record.environment = {{"cpu", "x"}, {"kernel", ""}};
  RequestRecord& warmup = record.requests[0];
  warmup.phase = Phase::kWarmup;
  warmup.sent = Nanos(-123'456'789);
  warmup.turn = 2;
  warmup.text = "caf\xC3\xA9 \xF0\x9F\x8C\x8D\n";
  RequestRecord& failed = record.requests[1];
  failed = {};
  failed.index = 1;
  failed.outcome = Outcome::kFailed;
  failed.failure = FailureKind::kServerError;
  failed.error = "said \"no\"";
  failed.http_status = 500;
  record.requests[2].chunks.front() = Chunk::make(Nanos(-7), 65535);
  record.requests[2].output_source = TokenSource::kTokenIds;
  return record;
}

TEST_F(RecordFile, ReadsBackWhatWasWritten) {
  const PointRecord record = full_record();
  const PointRecord other = make_closed_loop(1, 1, {});
  ASSERT_TRUE(append_record(path(), record).ok());
  ASSERT_TRUE(append_record(path(), other).ok());
  const auto read = read_records(path());
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->size(), 2u);
  EXPECT_EQ((*read)[0], record);
  EXPECT_EQ((*read)[1], other);
  EXPECT_EQ(to_jsonl((*read)[0]), to_jsonl(record));
}

TEST_F(RecordFile, SaysInfinityAsAWord) {
  const PointRecord record = make_closed_loop(1, 1, {});
  EXPECT_THAT(to_jsonl(record), HasSubstr("\"request_rate\": \"inf\""));
  const auto read = parse_records(to_jsonl(record));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ((*read)[0].plan.load.request_rate, std::numeric_limits<double>::infinity());
}

TEST_F(RecordFile, ReadsUpToItsLastWholePointWhereverItWasCut) {
  const PointRecord record = full_record();
  const std::string one = to_jsonl(record);
  const std::string two = one + one;
  for (size_t size = 0; size < two.size(); ++size) {
    const auto read = parse_records(std::string_view(two).substr(0, size));
    ASSERT_TRUE(read.ok()) << size << ": " << read.error().message;
    ASSERT_EQ(read->size(), size / one.size()) << size;
    for (const PointRecord& point : *read) ASSERT_EQ(point, record) << size;
  }
}

TEST_F(RecordFile, AppendsBehindWhatAKilledProcessLeft) {
  const PointRecord record = full_record();
  const std::string one = to_jsonl(record);
  // Of a process killed within a line, between lines, and a machine that lost power.
  for (const std::string& torn :
       {one.substr(0, one.size() / 2),
        one.substr(0, one.find('\n') + 1),
        one.substr(0, 5),
        one.substr(0, 20) + std::string(3, '\0')}) {
    write(one + torn);
    ASSERT_TRUE(append_record(path(), record).ok());
    const auto read = read_records(path());
    ASSERT_TRUE(read.ok()) << read.error().message;
    ASSERT_EQ(read->size(), 2u);
    EXPECT_EQ((*read)[1], record);
  }
}

TEST_F(RecordFile, LeavesAForeignFileAsItIs) {
  write("dear diary,\ntoday");
  const auto appended = append_record(path(), make_closed_loop(1, 1, {}));
  ASSERT_FALSE(appended.ok());
  EXPECT_THAT(appended.error().message, HasSubstr("not a file of benchmark points"));
  EXPECT_EQ(content(), "dear diary,\ntoday");
}

TEST_F(RecordFile, NamesTheDamagedLine) {
  const std::string good = to_jsonl(make_closed_loop(1, 1, {}));
  const std::string request = good.substr(good.find('\n') + 1);
  const struct {
    std::string text;
    std::string error;
  } cases[] = {
      {good + "{\"type\": \"poi\n" + good, "line 4: "},
      {good + "[]\n", "line 4: not an object"},
      {good + "{\"type\":\"other\"}\n", "line 4: 'type' must be"},
      {good + request, "line 4: a request before its point"},
      {"{\"type\":\"end\",\"num_requests\":0}\n", "line 1: an end before its point"},
      {"{\"type\":\"point\"}\n{\"type\":\"end\",\"num_requests\":1}\n",
       "line 2: 'num_requests' must be 0"},
      {"{\"type\":\"point\",\"plan\":{\"load\":{\"kind\":\"x\"}}}\n",
       "line 1: 'plan.load.kind' must be a known word"},
      {"{\"type\":\"point\",\"plan\":{\"num_prompts\":1.5}}\n",
       "line 1: 'plan.num_prompts' must be a whole number"},
      {"{\"type\":\"point\"}\n{\"type\":\"request\",\"sent_ns\":\"x\"}\n",
       "line 2: 'sent_ns' must be a whole number"},
      {"{\"type\":\"point\"}\n{\"type\":\"request\",\"sent_ns\":9000000000000000000}\n",
       "line 2: 'sent_ns' must be a time within 39 hours"},
      {"{\"type\":\"point\"}\n{\"type\":\"request\",\"num_output_tokens\":-1}\n",
       "line 2: 'num_output_tokens' must be a count"},
      {"{\"type\":\"point\"}\n{\"type\":\"request\",\"slot\":3000000000}\n", "line 2: 'slot'"},
      {"{\"type\":\"point\"}\n{\"type\":\"request\",\"chunks\":[[1,1],[1,65536]]}\n",
       "line 2: 'chunks[1]' must be"},
      {"{\"type\":\"point\"}\n{\"type\":\"request\",\"chunks\":[[9000000000000000000,1]]}\n",
       "line 2: 'chunks[0]' must be"},
      {"hello", "line 1: not a file of benchmark points"},
      {"hello\n", "line 1: "},
  };
  for (const auto& [text, error] : cases) {
    const auto read = parse_records(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(read.error().message, HasSubstr(error)) << text;
  }
}

TEST_F(RecordFile, SaysWhichFileIsNotThere) {
  const auto read = read_records(path());
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(read.error().message, HasSubstr(path()));
}

TEST_F(RecordFile, SaysWhyItCannotWrite) {
  const auto appended = append_record("/nonexistent/points.jsonl", make_closed_loop(1, 1, {}));
  ASSERT_FALSE(appended.ok());
  EXPECT_THAT(appended.error().message, HasSubstr("/nonexistent/points.jsonl"));
}

TEST_F(RecordFile, AnEmptyFileHasNoPoints) {
  write("");
  const auto read = read_records(path());
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->empty());
}

}  // namespace
}  // namespace millrace::bench
