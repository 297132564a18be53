#include "engine/step_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <utility>

#include "base/math.h"
#include "base/rng.h"
#include "engine/engine_core.h"
#include "engine/fake_model_runner.h"
#include "engine/step_replay.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Lines = std::vector<std::string>;

constexpr TokenId kPoison = 23;

// An engine under a random mix of requests, cancellations, deadlines and errors.
class Recording {
 public:
  explicit Recording(uint64_t seed) : rng_(seed), config_(draw_config()) {
    EngineCore core(
        config_,
        std::make_unique<FakeModelRunner>(FakeModelRunner::Options{
            .habit = 5.0F,
            .block_size = config_.block_size,
            .num_blocks = config_.num_blocks,
            .num_hidden_slots = config_.num_hidden_slots,
            .poison = kPoison,
            .on_forward = {},
        }),
        [this] { return now_ += std::chrono::microseconds(700); },
        [this](std::string_view lines) {
          text_ += lines;
          return true;
        }
    );
    while (num_requests_ < 25 || !core.is_idle()) {
      if (num_requests_ < 25 && draw(0, 2) == 0) {
        Request request = draw_request();
        if (core.add(std::move(request)).ok()) ++num_added_;
        ++num_requests_;
      }
      if (draw(0, 30) == 0) core.cancel(RequestId{rng_.below(num_requests_ + 1)});
      if (draw(0, 30) == 0 && num_requests_ > 0) {
        core.cancel(RequestId{rng_.below(num_requests_)}, 0);
      }
      if (draw(0, 300) == 0) core.cancel_all();
      core.step();
    }
    stats = core.scheduler_stats();
    num_steps = core.num_steps();
  }

  Lines lines() const {
    Lines lines;
    std::istringstream stream(text_);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
  int64_t num_added() const { return num_added_; }

  SchedulerStats stats;
  int64_t num_steps = 0;

 private:
  int32_t draw(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(rng_.below(static_cast<uint64_t>(high - low + 1)));
  }

  SchedulerConfig draw_config() {
    SchedulerConfig config{
        .policy = static_cast<SchedulingPolicy>(draw(0, 2)),
        .max_num_batched_tokens = draw(8, 30),
        .long_prefill_token_threshold = draw(1, 32),
        .max_num_seqs = draw(1, 8),
        .max_logit_rows = draw(8, 12),
        .max_model_len = draw(2, 64),
        .block_size = draw(1, 8),
        .enable_prefix_caching = draw(0, 3) > 0,
        .prefix_hash_key = {.low = rng_.next(), .high = rng_.next()},
        .eos_token_ids = {0, 5},
    };
    config.num_blocks = draw(1, 3) * div_ceil(draw(1, config.max_model_len), config.block_size);
    config.num_hidden_slots = draw(0, config.num_blocks);
    if (draw(0, 1) == 0) {
      config.speculation = NgramSpeculation{
          .num_speculative_tokens = draw(1, 5),
          .prompt_lookup_max = draw(2, 3),
          .prompt_lookup_min = draw(1, 2)};
    }
    return config;
  }

  Request draw_request() {
    Request request{.id = RequestId{num_requests_}, .arrival = now_};
    // Of few beginnings, so that they share them.
    const auto num_tokens = static_cast<size_t>(draw(1, 24));
    const int32_t kind = draw(0, 2);
    for (size_t i = 0; i < num_tokens; ++i) {
      const bool is_own = i > 12 && draw(0, 1) == 0;
      request.prompt.push_back(is_own ? draw(0, 22) : static_cast<TokenId>(i + 1) % (9 + kind));
    }
    if (draw(0, 19) == 0) request.prompt.back() = kPoison;
    request.prefix_root = {.low = draw(0, 4) == 0 ? rng_.next() : 1, .high = 3};
    if (!config_.enable_prefix_caching) request.prefix_root.high = num_requests_;
    request.tenant = TenantId{draw(0, 2)};
    request.priority = draw(-2, 2);
    if (draw(0, 9) == 0) request.deadline = now_ + std::chrono::milliseconds(draw(0, 60));
    request.sampling.max_tokens = draw(1, 24);
    request.sampling.min_tokens = draw(0, 1) * draw(0, request.sampling.max_tokens);
    request.sampling.ignore_eos = draw(0, 2) > 0;
    request.sampling.stop_token_ids = {draw(0, 22)};
    if (draw(0, 3) == 0) request.sampling.n = draw(2, 4);
    if (draw(0, 3) == 0) request.sampling.prompt_logprobs = draw(0, 3);
    return request;
  }

  Rng rng_;
  SchedulerConfig config_;
  TimePoint now_{};
  std::string text_;
  uint64_t num_requests_ = 0;
  int64_t num_added_ = 0;
};

struct Replayed {
  std::optional<size_t> bad_line;  // from 1 on
  std::string message;
  std::optional<StepReplay::Difference> difference;
  ReplaySummary summary;
};

Replayed replay(const Lines& lines) {
  StepReplay replay({.limits = {.num_blocks_max = 1 << 10, .num_slots_max = 1 << 14}});
  Replayed replayed;
  for (size_t i = 0; i < lines.size() && !replayed.bad_line; ++i) {
    const Result<void> taken = replay.take(lines[i]);
    if (taken) continue;
    replayed.bad_line = i + 1;
    replayed.message = taken.error().message;
  }
  replayed.difference = replay.difference();
  replayed.summary = replay.summary();
  return replayed;
}

void replace(std::string& text, const std::string& what, const std::string& by) {
  const size_t begin = text.find(what);
  ASSERT_NE(begin, std::string::npos) << what << " in " << text;
  text.replace(begin, what.size(), by);
}

// One request of three tokens that gets two more.
const Lines kShort = {
    R"({"millrace_steps":2,"policy":"fcfs","max_num_batched_tokens":16,)"
    R"("long_prefill_token_threshold":16,"max_num_seqs":4,"max_logit_rows":4,"max_model_len":64,)"
    R"("block_size":4,"num_blocks":8,"enable_prefix_caching":true,"num_hidden_slots":2,)"
    R"("eos_token_ids":[0],"speculation":null})",
    R"({"call":"add","id":18446744073709551615,"prompt":[7,8,9],"max_tokens":2,"min_tokens":0,)"
    R"("n":1,"ignore_eos":false,"stop_token_ids":[],"prompt_logprobs":null,"priority":0,)"
    R"("arrival":5,"deadline":null,"prefix_root":"00000000000000000000000000000001","tenant":0})",
    R"({"call":"plan","now":6,"scheduled":[[18446744073709551615,0,0,3,1,null,0]],"copies":[],)"
    R"("dropped":[]})",
    R"({"call":"commit","now":7,"outcomes":[17]})",
    R"({"call":"plan","now":8,"scheduled":[[18446744073709551615,0,3,1,1,null,null]],"copies":[],)"
    R"("dropped":[]})",
    R"({"call":"commit","now":9,"outcomes":[17]})",
};

Lines with(size_t line, const std::string& what, const std::string& by) {
  Lines lines = kShort;
  replace(lines[line - 1], what, by);
  return lines;
}

TEST(StepRecord, ReplaysToTheSamePlansWithAnotherHashKey) {
  SchedulerStats totals;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Recording recording(seed);
    const Lines lines = recording.lines();
    const Replayed replayed = replay(lines);
    ASSERT_EQ(replayed.bad_line, std::nullopt)
        << replayed.message << "\n"
        << (replayed.difference
                ? replayed.difference->recorded + "\n" + replayed.difference->computed
                : "");
    const SchedulerStats& stats = replayed.summary.scheduler;
    EXPECT_EQ(replayed.summary.num_requests, recording.num_added());
    EXPECT_EQ(replayed.summary.num_steps, recording.num_steps);
    EXPECT_EQ(replayed.summary.step_times.size(), static_cast<size_t>(recording.num_steps));
    EXPECT_EQ(stats.num_tokens_computed, recording.stats.num_tokens_computed);
    EXPECT_EQ(stats.num_output_tokens, recording.stats.num_output_tokens);
    EXPECT_EQ(stats.num_preemptions, recording.stats.num_preemptions);
    EXPECT_EQ(stats.num_prefix_hits, recording.stats.num_prefix_hits);
    EXPECT_EQ(
        stats.speculation.num_accepted_tokens, recording.stats.speculation.num_accepted_tokens
    );
    EXPECT_EQ(stats.num_running + stats.num_waiting, 0);
    totals.num_preemptions += stats.num_preemptions;
    totals.num_block_copies += stats.num_block_copies;
    totals.num_resumed += stats.num_resumed;
    totals.speculation.num_draft_tokens += stats.speculation.num_draft_tokens;
    totals.speculation.num_accepted_tokens += stats.speculation.num_accepted_tokens;
  }
  EXPECT_GT(totals.num_preemptions, 0);
  EXPECT_GT(totals.num_block_copies, 0);
  EXPECT_GT(totals.num_resumed, 0);
  EXPECT_GT(totals.speculation.num_accepted_tokens, 200);
  EXPECT_GT(totals.speculation.num_draft_tokens, totals.speculation.num_accepted_tokens);
}

TEST(StepRecord, IsWrittenAsTheHeaderSays) {
  std::string text;
  SchedulerConfig config{
      .max_num_batched_tokens = 16,
      .long_prefill_token_threshold = 16,
      .max_num_seqs = 4,
      .max_logit_rows = 4,
      .max_model_len = 64,
      .block_size = 4,
      .num_blocks = 8,
      .prefix_hash_key = {.low = 0x1234567890, .high = 0xabcdef0123},
      .num_hidden_slots = 2,
      .eos_token_ids = {0},
  };
  StepRecorder recorder(
      [&text](std::string_view lines) { return !(text += lines).empty(); }, config
  );
  Request request{.id = RequestId{~uint64_t{0}}, .prompt = {7, 8, 9}, .prefix_root = {.low = 1}};
  request.sampling.max_tokens = 2;
  request.arrival = TimePoint(std::chrono::nanoseconds(5));
  recorder.add(request);
  EXPECT_EQ(text, kShort[0] + "\n") << "the key stays out of it";
  Scheduler scheduler(config);
  ASSERT_TRUE(scheduler.add(request).ok());
  const TimePoint now{std::chrono::nanoseconds(6)};
  recorder.plan(StepPlan{}, now);
  recorder.plan(scheduler.plan(now), now);
  const std::vector<StepOutcome> outcomes = {SampledTokens{{.id = 17, .logprobs = {}}}};
  recorder.commit(outcomes, now + std::chrono::nanoseconds(1));
  recorder.flush();
  EXPECT_EQ(text, kShort[0] + "\n" + kShort[1] + "\n" + kShort[2] + "\n" + kShort[3] + "\n");
  EXPECT_EQ(replay(kShort).bad_line, std::nullopt) << replay(kShort).message;
}

TEST(StepRecord, EndsWhenItCannotBeWrittenAndTheEngineGoesOn) {
  int num_writes = 0;
  EngineCore core(
      {.max_num_seqs = 4, .max_model_len = 64, .block_size = 4, .num_blocks = 64},
      std::make_unique<FakeModelRunner>(FakeModelRunner::Options{.on_forward = {}}),
      Clock::now,
      [&num_writes](std::string_view) { return ++num_writes < 3; }
  );
  Request request{.id = RequestId{0}, .prompt = {1, 2}};
  request.sampling.ignore_eos = true;
  ASSERT_TRUE(core.add(request).ok());
  while (!core.is_idle()) core.step();
  EXPECT_EQ(core.num_steps(), 16);
  EXPECT_EQ(num_writes, 3);
}

TEST(StepReplay, NoticesAPlanThatDiffers) {
  for (const auto& [what, by] :
       {std::pair("0,0,3,1,null,0", "0,0,2,1,null,0"),
        std::pair("0,0,3,1,null,0", "0,0,3,0,null,0"),
        std::pair("null,0]", "null,null]"),
        std::pair(R"("copies":[])", R"("copies":[[1,2]])"),
        std::pair(R"("dropped":[])", R"("dropped":[[0,0,"deadline"]])"),
        std::pair(R"("dropped":[])", R"("dropped":[],"more":1)")}) {
    const Replayed replayed = replay(with(3, what, by));
    EXPECT_EQ(replayed.bad_line, 3U) << by;
    ASSERT_TRUE(replayed.difference.has_value()) << by;
    EXPECT_EQ(replayed.difference->computed, kShort[2]);
    EXPECT_EQ(replayed.difference->recorded, with(3, what, by)[2]);
  }
  EXPECT_EQ(replay(with(3, ",", " , ")).bad_line, std::nullopt) << "blanks are no difference";
}

TEST(StepReplay, NoticesATokenThatDiffersInTheNextPlan) {
  const Replayed replayed = replay(with(4, "17", "0"));  // the end of the sequence
  EXPECT_EQ(replayed.bad_line, 5U);
  ASSERT_TRUE(replayed.difference.has_value());
  EXPECT_THAT(replayed.difference->computed, HasSubstr(R"("scheduled":[])"));
}

TEST(StepReplay, SaysWhatIsWrongInALine) {
  struct Case {
    size_t line;
    const char* what;
    const char* by;
    const char* message;
  };
  const Case cases[] = {
      {1, R"("millrace_steps":2)", R"("millrace_steps":1)", "version 1; this build replays"},
      {1, R"("millrace_steps":2)", R"("steps":2)", "not a recording"},
      {1, "fcfs", "lifo", "'policy' must be"},
      {1, R"("num_blocks":8)", R"("num_blocks":9000)", "at most 1024 blocks"},
      {1, R"("block_size":4)", R"("block_size":400000)", "at most 1024 blocks"},
      {1, R"("num_hidden_slots":2)", R"("num_hidden_slots":2000000000)", "at most 1024 blocks"},
      {1, R"("max_num_seqs":4)", R"("max_num_seqs":40)", "max_num_batched_tokens must be"},
      {1, R"("max_num_seqs":4,)", "", "'max_num_seqs' is missing"},
      {2, R"("tenant":0)", R"("tenant":0,"user":1)", "a field that this line does not have"},
      {2, "[7,8,9]", "[7,-8,9]", "'prompt' must hold token ids"},
      {2, "[7,8,9]", "[]", "the prompt has no tokens"},
      {2, R"("n":1)", R"("n":2000)", "'n' must be an integer from 1 to 1024"},
      {2, R"("n":1)", R"("n":1.5)", "'n' must be an integer from 1 to 1024"},
      {2, "18446744073709551615", "-1", "'id' must be"},
      {2, "0001\"", "001\"", "32 hexadecimal digits"},
      {2, R"("add")", R"("sub")", "'call' must be"},
      {3, "6", "6.5", "'now' must be"},
      {4, "[17]", "[17,18]", "2 outcomes; the plan has 1 stretches"},
      {4, "[17]", "[null]", "outcomes[0]: this stretch gives a token"},
      {4, "[17]", "[-1]", "outcomes[0] must be a token id"},
      {4, "commit", "plan", "a plan is followed by its commit"},
      {4, "]}", "]", "byte"},
  };
  for (const Case& wrong : cases) {
    const Replayed replayed = replay(with(wrong.line, wrong.what, wrong.by));
    EXPECT_EQ(replayed.bad_line, wrong.line) << wrong.by;
    EXPECT_THAT(replayed.message, HasSubstr(wrong.message));
    EXPECT_EQ(replayed.difference, std::nullopt);
  }
  EXPECT_THAT(replay({kShort[0], kShort[1], kShort[1]}).message, HasSubstr("there already"));
  EXPECT_THAT(replay({kShort[0], kShort[3]}).message, HasSubstr("without a plan"));
  const std::string cancel = R"({"call":"cancel","id":18446744073709551615,"choice":1})";
  EXPECT_THAT(replay({kShort[0], kShort[1], cancel}).message, HasSubstr("has no choice 1"));
  EXPECT_EQ(replay({kShort[0], cancel}).bad_line, std::nullopt) << "of a request that is over";
}

// One request whose third token was guessed, and was right.
const Lines kGuessed = {
    R"({"millrace_steps":2,"policy":"fcfs","max_num_batched_tokens":16,)"
    R"("long_prefill_token_threshold":16,"max_num_seqs":4,"max_logit_rows":4,"max_model_len":64,)"
    R"("block_size":4,"num_blocks":8,"enable_prefix_caching":false,"num_hidden_slots":0,)"
    R"("eos_token_ids":[0],"speculation":[2,2,1]})",
    R"({"call":"add","id":0,"prompt":[7,8,9],"max_tokens":4,"min_tokens":0,)"
    R"("n":1,"ignore_eos":false,"stop_token_ids":[],"prompt_logprobs":null,"priority":0,)"
    R"("arrival":5,"deadline":null,"prefix_root":"00000000000000000000000000000001","tenant":0})",
    R"({"call":"plan","now":6,"scheduled":[[0,0,0,3,1,null,null]],"copies":[],"dropped":[]})",
    R"({"call":"commit","now":7,"outcomes":[7]})",
    R"({"call":"plan","now":8,"scheduled":[[0,0,3,3,3,null,null,[8,9]]],"copies":[],"dropped":[]})",
    R"({"call":"commit","now":9,"outcomes":[[8,3]]})",
    R"({"call":"plan","now":10,"scheduled":[[0,0,5,1,1,null,null]],"copies":[],"dropped":[]})",
    R"({"call":"commit","now":11,"outcomes":[4]})",
};

TEST(StepReplay, ReplaysWhatWasGuessed) {
  const Replayed replayed = replay(kGuessed);
  EXPECT_EQ(replayed.bad_line, std::nullopt) << replayed.message;
  EXPECT_EQ(replayed.summary.scheduler.speculation.num_draft_tokens, 2);
  EXPECT_EQ(replayed.summary.scheduler.speculation.num_accepted_tokens, 1);
  EXPECT_EQ(replayed.summary.scheduler.num_output_tokens, 4);
}

TEST(StepReplay, SaysWhatIsWrongInAGuess) {
  struct Case {
    size_t line;
    const char* what;
    const char* by;
    const char* message;
  };
  const Case cases[] = {
      {1, "[2,2,1]", "[2,2]", "num_speculative_tokens must be 1 to 32, got 0"},
      {1, "[2,2,1]", "[2,2,1,1]", "num_speculative_tokens must be 1 to 32, got 0"},
      {1, "[2,2,1]", "[2,1,2]", "must not be above prompt_lookup_max"},
      {1, "[2,2,1]", "5", "'speculation' must be a list"},
      {1, R"(,"speculation":[2,2,1])", "", "'speculation' is missing"},
      {5, "[8,9]", "[8,8]", "another plan"},
      {6, "[[8,3]]", "[[]]", "outcomes[0] must be a token id, a list of them"},
      {6, "[[8,3]]", "[[8,\"9\"]]", "outcomes[0] must be a token id, a list of them"},
      {6, "[[8,3]]", "[[3,9]]", "outcomes[0]: a token after one that was not guessed"},
      {6, "[[8,3]]", "[[8,9,1,1]]", "outcomes[0]: a token after one that was not guessed"},
      {6, "[[8,3]]", "[null]", "outcomes[0]: this stretch gives a token"},
      {8, "[4]", "[[4,4]]", "outcomes[0]: a token after one that was not guessed"},
  };
  for (const Case& wrong : cases) {
    Lines lines = kGuessed;
    replace(lines[wrong.line - 1], wrong.what, wrong.by);
    const Replayed replayed = replay(lines);
    EXPECT_EQ(replayed.bad_line, wrong.line) << wrong.by;
    EXPECT_THAT(replayed.message, HasSubstr(wrong.message));
  }
}

// Lines that were cut, changed, doubled, left out or exchanged: an error or not, and no crash.
TEST(StepReplay, SurvivesDamage) {
  Rng rng(7);
  int num_refused = 0;
  for (uint64_t i = 0; i < 600; ++i) {
    SCOPED_TRACE(::testing::Message() << "damage " << i);
    Lines lines = Recording(i % 20).lines();
    std::string& line = lines[rng.below(lines.size())];
    const uint64_t kind = rng.below(5);
    if (kind == 0) line.resize(rng.below(line.size()));
    if (kind == 1) line[rng.below(line.size())] = static_cast<char>('0' + rng.below(10));
    if (kind == 2) line[rng.below(line.size())] = static_cast<char>(rng.below(256));
    if (kind == 3) std::swap(line, lines[rng.below(lines.size())]);
    if (kind == 4) line = lines[rng.below(lines.size())];
    if (replay(lines).bad_line) ++num_refused;
  }
  EXPECT_GT(num_refused, 300);
}

}  // namespace
}  // namespace millrace
