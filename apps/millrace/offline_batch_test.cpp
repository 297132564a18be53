// A batch from its lines to its answers, with engines that make tokens up.
#include "offline_batch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "base/json.h"
#include "base/test_folder.h"
#include "server/byte_tokenizer.h"
#include "server/scripted_engine.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string request(const std::string& custom_id, const json::object& body) {
  const json::object line = {
      {"custom_id", custom_id}, {"method", "POST"}, {"url", "/v1/completions"}, {"body", body}};
  return json::serialize(line) + "\n";
}

std::string name_of(int number) {
  return fmt::format("r{}", number);
}

LocalModel model_with(std::unique_ptr<Engine> engine) {
  return LocalModel{
      .text = {.tokenizer = make_byte_tokenizer(), .chat_template = std::nullopt},
      .config = {},
      .engine = std::move(engine),
  };
}

LocalModel null_model(NullEngineOptions options) {
  options.vocab_size = 256;
  options.plain_ids = {'a', 'b', 'c', 'd'};
  options.max_model_len = 256;
  options.n_max = 4;
  options.logprobs_max = 3;
  Result<std::unique_ptr<NullEngine>> engine = NullEngine::start(std::move(options));
  EXPECT_TRUE(engine) << engine.error().message;
  return model_with(*std::move(engine));
}

class OfflineBatchTest : public ::testing::Test {
 protected:
  OfflineBatchTest() {
    options_.model_names = {"test"};
    options_.num_requests_at_once = 8;
    options_.local_now = [] { return std::chrono::local_seconds(); };
  }

  BatchProgress run(LocalModel& model, const BatchOutputOptions& existing = {}) {
    AnsweredRequests answered;
    Result<JsonlInput> input = JsonlInput::open(folder_.path("in"), 4000);
    EXPECT_TRUE(input) << input.error().message;
    Result<BatchOutput> output = BatchOutput::open(folder_.path("out"), existing, answered);
    EXPECT_TRUE(output) << output.error().message;
    Result<BatchProgress> progress =
        run_offline_batch(model, *input, *output, answered, options_, stop_.get_token());
    EXPECT_TRUE(progress) << progress.error().message;
    return *progress;
  }

  // The answers by their custom_id, or by their id where they have none. Each is there once.
  std::map<std::string, json::value> answers() const {
    std::map<std::string, json::value> found;
    std::istringstream lines(folder_.read("out"));
    for (std::string line; std::getline(lines, line);) {
      const json::value answer = json::parse(line);
      const json::value& custom_id = answer.at("custom_id");
      const std::string name(
          custom_id.is_null() ? answer.at("id").as_string() : custom_id.as_string()
      );
      EXPECT_TRUE(found.emplace(name, answer).second) << name << " is there twice";
    }
    return found;
  }

  TestFolder folder_;
  OfflineBatchOptions options_;
  std::stop_source stop_;
};

std::string_view text_of(const json::value& answer, size_t choice = 0) {
  return answer.at_pointer("/response/body/choices").as_array().at(choice).at("text").as_string();
}

TEST_F(OfflineBatchTest, AnswersEveryLineOnceThoughTheEngineIsOftenFull) {
  LocalModel model =
      null_model({.tokens_per_second = 1e6, .max_num_seqs = 2, .max_num_live_seqs = 4});
  std::string lines;
  for (int i = 0; i < 200; ++i) {
    json::object body = {{"prompt", "p"}, {"max_tokens", 1 + i % 9}, {"ignore_eos", true}};
    if (i % 3 == 0) body["n"] = 3;
    if (i % 4 == 0) body["prompt"] = json::array{"x", "y"};
    if (i % 12 == 0) body["n"] = 2;  // two prompts with two choices: as many as it holds
    lines += request(name_of(i), body);
  }
  folder_.write("in", lines);
  const BatchProgress progress = run(model);
  EXPECT_EQ(progress.num_answered, 200);
  EXPECT_EQ(progress.num_failed, 0);
  EXPECT_EQ(progress.num_input_bytes, lines.size());
  const auto found = answers();
  ASSERT_EQ(found.size(), 200U);
  for (int i = 0; i < 200; ++i) {
    const json::value& answer = found.at(name_of(i));
    const size_t n = i % 12 == 0 ? 4 : i % 3 == 0 ? 3 : i % 4 == 0 ? 2 : 1;
    EXPECT_EQ(answer.at_pointer("/response/body/choices").as_array().size(), n) << i;
    for (size_t choice = 0; choice < n; ++choice) {
      EXPECT_EQ(text_of(answer, choice).size(), static_cast<size_t>(1 + i % 9)) << i;
    }
  }
}

TEST_F(OfflineBatchTest, BadLinesAreAnsweredAndTouchNoOther) {
  LocalModel model = null_model({.tokens_per_second = 1e6});
  const json::object body = {{"prompt", "p"}, {"max_tokens", 2}};
  folder_.write(
      "in",
      "nonsense\n" + request("a", body) + request("a", body) + std::string(5000, 'x') + "\n" +
          request("bad", {{"prompt", "p"}, {"n", 5}}) +
          request("other", {{"prompt", "p"}, {"model", "gpt"}}) +
          request("stream", {{"prompt", "p"}, {"stream", true}}) +
          request("long", {{"prompt", std::string(300, 'p')}}) + request("b", body)
  );
  const BatchProgress progress = run(model);
  EXPECT_EQ(progress.num_answered, 2);
  EXPECT_EQ(progress.num_failed, 7);
  const auto found = answers();
  ASSERT_EQ(found.size(), 9U);
  const auto code_of = [&](const char* name) {
    return std::string(found.at(name).at_pointer("/error/code").as_string());
  };
  EXPECT_EQ(code_of("batch_req_1"), "invalid_json");
  EXPECT_EQ(code_of("batch_req_3"), "duplicate_custom_id");
  EXPECT_EQ(code_of("batch_req_4"), "invalid_json");
  const auto status_of = [&](const char* name) {
    EXPECT_TRUE(found.at(name).at("error").is_null());
    return found.at(name).at_pointer("/response/status_code").as_int64();
  };
  EXPECT_EQ(status_of("a"), 200);
  EXPECT_EQ(status_of("b"), 200);
  EXPECT_EQ(status_of("bad"), 400);
  EXPECT_EQ(status_of("other"), 404);
  EXPECT_EQ(status_of("stream"), 400);
  EXPECT_EQ(status_of("long"), 400);
  EXPECT_EQ(found.at("stream").at_pointer("/response/body/error/param").as_string(), "stream");
}

TEST_F(OfflineBatchTest, GoesOnWhereAnEarlierRunStopped) {
  const json::object body = {{"prompt", "p"}, {"max_tokens", 3}, {"temperature", 1.0}};
  std::string lines = "nonsense\n";
  for (int i = 0; i < 20; ++i) lines += request(name_of(i), body);
  lines += request("r3", body);
  folder_.write("in", lines);
  LocalModel model = null_model({.tokens_per_second = 1e6, .seed = 5});
  run(model);
  const auto whole = answers();
  ASSERT_EQ(whole.size(), 22U);

  // Whatever part of it was written, in whatever order: the rest comes, and nothing twice.
  std::vector<std::string> written;
  std::istringstream output(folder_.read("out"));
  for (std::string line; std::getline(output, line);) written.push_back(line + "\n");
  for (size_t num_kept = 0; num_kept <= written.size(); ++num_kept) {
    std::string kept;
    for (size_t i = 0; i < num_kept; ++i) kept += written[written.size() - 1 - i];
    folder_.write("out", kept + "{\"id\":\"batch_req_7\",\"cust");
    const BatchProgress progress = run(model);
    EXPECT_EQ(
        progress.num_answered_before + progress.num_failed_before, static_cast<int64_t>(num_kept)
    );
    const auto found = answers();
    ASSERT_EQ(found.size(), 22U);
    for (const auto& [name, answer] : whole) {
      if (answer.at("response").is_null()) continue;
      EXPECT_EQ(text_of(answer), text_of(found.at(name))) << name;
    }
  }
}

TEST_F(OfflineBatchTest, DoesFailedRequestsAgainWhenItIsTold) {
  const json::object body = {{"prompt", "p"}, {"max_tokens", 1}};
  folder_.write("in", request("a", {{"prompt", 5}}) + request("b", body) + "nonsense\n");
  LocalModel model = null_model({.tokens_per_second = 1e6});
  EXPECT_EQ(run(model).num_failed, 2);
  folder_.write("in", request("a", body) + request("b", body) + request("c", body));
  BatchProgress progress = run(model);
  EXPECT_EQ(progress.num_failed_before, 1);  // what line 3 was once is nobody's now
  EXPECT_EQ(progress.num_answered, 1);
  progress = run(model, {.retry_failed = true});
  EXPECT_EQ(progress.num_answered, 1);
  EXPECT_EQ(progress.num_answered_before, 2);
  EXPECT_EQ(progress.num_failed_before, 0);
  EXPECT_EQ(answers().size(), 3U);
}

TEST_F(OfflineBatchTest, StopsSoonAndWritesNothingOfWhatWasUnderWay) {
  std::string lines;
  for (int i = 0; i < 50; ++i) {
    const int max_tokens = i == 0 ? 1 : 200;
    lines +=
        request(name_of(i), {{"prompt", "p"}, {"max_tokens", max_tokens}, {"ignore_eos", true}});
  }
  folder_.write("in", lines);
  LocalModel model = null_model({.tokens_per_second = 10});
  options_.on_progress = [this](const BatchProgress&) { stop_.request_stop(); };
  const BatchProgress progress = run(model);
  EXPECT_TRUE(progress.is_interrupted);
  EXPECT_EQ(answers().size(), 1U);
}

TEST_F(OfflineBatchTest, StopsWhileItWaitsForInput) {
  ASSERT_EQ(::mkfifo(folder_.path("in").c_str(), 0600), 0);
  std::fstream other_end(folder_.path("in"), std::ios::in | std::ios::out);
  LocalModel model = null_model({.tokens_per_second = 1e6});
  std::thread stopper([this] { stop_.request_stop(); });
  EXPECT_TRUE(run(model).is_interrupted);
  stopper.join();
}

// With an engine that says what the test says.
class ScriptedBatchTest : public OfflineBatchTest {
 protected:
  ScriptedBatchTest() : model_(model_with(std::make_unique<ScriptedEngine>())) {}
  ~ScriptedBatchTest() override {
    if (thread_.joinable()) thread_.join();
  }
  ScriptedEngine& engine() { return static_cast<ScriptedEngine&>(*model_.engine); }
  void start(const std::string& lines) {
    folder_.write("in", lines);
    thread_ = std::thread([this] { progress_ = run(model_); });
  }
  std::map<std::string, json::value> finish() {
    thread_.join();
    return answers();
  }

  LocalModel model_;
  BatchProgress progress_;
  std::thread thread_;
};

TEST_F(ScriptedBatchTest, AStopStringEndsAChoiceAndIsToldToTheEngine) {
  start(request("a", {{"prompt", "p"}, {"max_tokens", 9}, {"stop", "END"}}));
  const size_t call = engine().take();
  engine().text(call, 0, "some ENDless");
  EXPECT_TRUE(engine().is_cancelled(call, 0));
  engine().finish(call, 0, FinishReason::kCancelled);
  const auto found = finish();
  EXPECT_EQ(text_of(found.at("a")), "some ");
  const json::value& choice = found.at("a").at_pointer("/response/body/choices/0");
  EXPECT_EQ(choice.at("finish_reason").as_string(), "stop");
  EXPECT_EQ(choice.at("stop_reason").as_string(), "END");
  EXPECT_EQ(progress_.num_output_tokens, 8);
}

TEST_F(ScriptedBatchTest, AnErrorOfOnePromptFailsItsRequestAlone) {
  start(
      request("list", {{"prompt", {"p", "q"}}, {"max_tokens", 5}}) +
      request("other", {{"prompt", "r"}, {"max_tokens", 5}})
  );
  const size_t first = engine().take();
  const size_t second = engine().take();
  const size_t other = engine().take();
  engine().text(first, 0, "x");
  engine().finish(second, 0, FinishReason::kError, {.error = Error{.message = "secret"}});
  EXPECT_TRUE(engine().is_cancelled(first));
  engine().finish(first, 0, FinishReason::kCancelled);
  engine().text(other, 0, "fine");
  engine().finish(other, 0, FinishReason::kLength);
  const auto found = finish();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found.at("list").at_pointer("/response/status_code").as_int64(), 500);
  EXPECT_EQ(text_of(found.at("other")), "fine");
  EXPECT_EQ(progress_.num_failed, 1);
}

TEST_F(ScriptedBatchTest, ADeadlineIsAnAnswerToo) {
  start(request("late", {{"prompt", "p"}, {"timeout_s", 0.5}}));
  const size_t call = engine().take();
  EXPECT_TRUE(engine().request(call).deadline);
  engine().finish(call, 0, FinishReason::kDeadline);
  EXPECT_EQ(finish().at("late").at_pointer("/response/status_code").as_int64(), 504);
}

TEST_F(ScriptedBatchTest, SeedsFollowFromTheLine) {
  const json::object body = {{"prompt", "p"}};
  start(request("a", body) + request("b", {{"prompt", "p"}, {"seed", 7}}) + request("c", body));
  std::set<uint64_t> seeds;
  for (int i = 0; i < 3; ++i) {
    const size_t call = engine().take();
    ASSERT_TRUE(engine().request(call).sampling.seed);
    seeds.insert(*engine().request(call).sampling.seed);
    engine().finish(call, 0, FinishReason::kStop);
  }
  EXPECT_EQ(seeds.size(), 3U);
  EXPECT_TRUE(seeds.contains(7));
  finish();
}

TEST_F(OfflineBatchTest, WhatAnEmptyEngineRefusesIsAnAnswer) {
  auto engine = std::make_unique<ScriptedEngine>();
  engine->refusal = Error{ErrorCode::kResourceExhausted, "no room"};
  LocalModel model = model_with(std::move(engine));
  folder_.write("in", request("a", {{"prompt", "p"}}));
  EXPECT_EQ(run(model).num_failed, 1);
  EXPECT_EQ(answers().at("a").at_pointer("/response/status_code").as_int64(), 503);
}

}  // namespace
}  // namespace millrace
