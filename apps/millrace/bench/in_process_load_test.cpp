// The grid without HTTP, over an engine that makes its tokens up.
#include "bench/in_process_load.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "engine/null_engine.h"

namespace millrace::bench {
namespace {

using std::chrono::milliseconds;

std::unique_ptr<NullEngine> start_engine(
    const std::function<void(NullEngineOptions&)>& change = {}
) {
  NullEngineOptions options{.vocab_size = 200, .tokens_per_second = 2000.0, .max_model_len = 512};
  options.plain_ids.resize(100);
  std::iota(options.plain_ids.begin(), options.plain_ids.end(), 50);
  options.time_to_first_token = milliseconds(2);
  if (change) change(options);
  auto engine = NullEngine::start(std::move(options));
  EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
  return std::move(*engine);
}

// A byte is a token.
class ByteCodec final : public TokenCodec {
 public:
  Result<std::vector<TokenId>> encode(std::string_view text) const override {
    if (text == "broken") return invalid_argument("cannot be encoded");
    return std::vector<TokenId>(text.begin(), text.end());
  }
  Result<std::string> decode(std::span<const TokenId> ids) const override {
    return std::string(ids.begin(), ids.end());
  }
  size_t vocab_size() const override { return 200; }
  bool is_reserved(TokenId) const override { return false; }
  size_t num_added_tokens() const override { return 0; }
};

class PlainDataset final : public Dataset {
 public:
  explicit PlainDataset(PlannedPrompt prompt = std::string("abc")) : prompt_(std::move(prompt)) {}
  std::optional<size_t> size() const override { return std::nullopt; }
  Result<PlannedSession> session(size_t index) const override {
    PlannedRequest request;
    request.prompt = prompt_;
    request.num_output_tokens = 2 + static_cast<int64_t>(index % 5);
    return PlannedSession{{std::move(request)}};
  }

 private:
  PlannedPrompt prompt_;
};

LoadOptions options_of(int64_t concurrency, int64_t num_sessions, int64_t num_warmups = 0) {
  LoadOptions options;
  options.load.kind = LoadKind::kConcurrency;
  options.load.max_concurrency = concurrency;
  options.num_sessions = num_sessions;
  options.num_warmups = num_warmups;
  return options;
}

LoadResult must_run(Engine& engine, const Dataset& dataset, const LoadOptions& options) {
  Result<LoadResult> result = run_in_process_load(engine, dataset, ByteCodec(), options, {});
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? *std::move(result) : LoadResult{};
}

TEST(InProcessLoad, RecordsEachRequestOnceWithItsExactLength) {
  const auto engine = start_engine();
  const LoadResult result = must_run(*engine, PlainDataset(), options_of(3, 20, 4));
  ASSERT_EQ(result.requests.size(), 24U);
  EXPECT_EQ(result.stop_reason, StopReason::kAllDone);
  std::set<int64_t> indices;
  for (const RequestRecord& request : result.requests) {
    indices.insert(request.index);
    EXPECT_EQ(request.outcome, Outcome::kCompleted) << request.error;
    EXPECT_EQ(request.num_output_tokens, request.num_output_tokens_planned);
    EXPECT_EQ(static_cast<int64_t>(request.chunks.size()), request.num_output_tokens);
    EXPECT_EQ(request.num_prompt_tokens, 3);
    EXPECT_EQ(request.output_source, TokenSource::kTokenIds);
    ASSERT_TRUE(request.first_token && request.last_token);
    EXPECT_GE(*request.first_token - request.sent, milliseconds(2)) << "as the engine was told";
    EXPECT_LE(*request.first_token, *request.last_token);
    EXPECT_LE(*request.last_token, request.ended);
  }
  EXPECT_EQ(indices.size(), 24U);
}

TEST(InProcessLoad, WarmUpIsOverBeforeTheClock) {
  const auto engine = start_engine();
  const LoadResult result = must_run(*engine, PlainDataset(), options_of(2, 6, 3));
  for (const RequestRecord& request : result.requests) {
    if (request.phase == Phase::kWarmup) {
      EXPECT_LE(request.ended, Nanos(0));
    } else {
      EXPECT_GE(request.sent, Nanos(0));
      EXPECT_LE(request.ended, result.finished);
    }
  }
  EXPECT_EQ(std::ranges::count(result.requests, Phase::kWarmup, &RequestRecord::phase), 3);
}

TEST(InProcessLoad, ASlotHasOneRequestAtATime) {
  const auto engine = start_engine();
  const LoadResult result = must_run(*engine, PlainDataset(), options_of(3, 30));
  std::map<int32_t, std::vector<RequestRecord>> slots;
  for (const RequestRecord& request : result.requests) slots[request.slot].push_back(request);
  ASSERT_EQ(slots.size(), 3U);
  for (auto& [slot, requests] : slots) {
    std::ranges::sort(requests, {}, &RequestRecord::sent);
    for (size_t i = 1; i < requests.size(); ++i) {
      EXPECT_GE(requests[i].sent, requests[i - 1].ended);
    }
  }
}

TEST(InProcessLoad, TakesTokenIdsAsTheyAre) {
  const auto engine = start_engine();
  const PlainDataset dataset(std::vector<TokenId>{60, 61, 62, 63, 64});
  const LoadResult result = must_run(*engine, dataset, options_of(1, 2));
  ASSERT_EQ(result.requests.size(), 2U);
  EXPECT_EQ(result.requests[0].num_prompt_tokens, 5);
}

TEST(InProcessLoad, AFailingRequestIsARecord) {
  const auto failing = start_engine([](NullEngineOptions& options) {
    options.faults.failing_first_token = TokenId{'a'};
    options.faults.num_tokens_before_failure = 1;
  });
  LoadResult result = must_run(*failing, PlainDataset(), options_of(2, 6));
  ASSERT_EQ(result.requests.size(), 6U);
  for (const RequestRecord& request : result.requests) {
    EXPECT_EQ(request.outcome, Outcome::kFailed);
    EXPECT_EQ(request.failure, FailureKind::kServerError);
    EXPECT_FALSE(request.error.empty());
    EXPECT_EQ(request.num_output_tokens, 1) << "what came before";
  }
  // Refused at the door: longer than the model's context.
  const auto engine = start_engine();
  result = must_run(*engine, PlainDataset(std::string(600, 'x')), options_of(2, 40));
  ASSERT_EQ(result.requests.size(), 40U);
  EXPECT_EQ(result.requests[0].outcome, Outcome::kFailed);
}

TEST(InProcessLoad, APromptThatCannotBeEncodedIsAnError) {
  const auto engine = start_engine();
  const auto run = [&](const PlannedPrompt& prompt) {
    return run_in_process_load(*engine, PlainDataset(prompt), ByteCodec(), options_of(1, 2), {});
  };
  const auto broken = run(std::string("broken"));
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message, "cannot be encoded");
  EXPECT_FALSE(run(std::vector<PlannedMessage>{{"user", "hi"}}));
}

TEST(InProcessLoad, AStopKeepsWhatWasRecorded) {
  const auto engine = start_engine();
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(milliseconds(60));
    stop.request_stop();
  });
  const auto result = run_in_process_load(
      *engine, PlainDataset(), ByteCodec(), options_of(2, 100'000), stop.get_token()
  );
  ASSERT_TRUE(result);
  EXPECT_EQ(result->stop_reason, StopReason::kInterrupted);
  EXPECT_LT(result->requests.size(), 100'000U);
  for (const RequestRecord& request : result->requests) {
    EXPECT_EQ(request.outcome, Outcome::kCompleted) << "what was under way came to its end";
  }
}

}  // namespace
}  // namespace millrace::bench
