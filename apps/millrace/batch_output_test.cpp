// The file of answers: what a run that goes on finds in it, and what it must not touch.
#include "batch_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <optional>

#include "base/test_folder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using State = AnsweredRequests::State;

std::string good(uint64_t number, const std::string& custom_id) {
  return batch_answer_line({.line_number = number, .custom_id = custom_id}, 200, "r", "{\"a\":1}");
}
std::string refused(uint64_t number, const std::string& custom_id) {
  return batch_answer_line({.line_number = number, .custom_id = custom_id}, 400, "r", "{}");
}
std::string nameless(uint64_t number) {
  return batch_error_line(
      {.line_number = number, .custom_id = std::nullopt}, invalid_argument("bad")
  );
}

class BatchOutputTest : public ::testing::Test {
 protected:
  Result<BatchOutput> open(const BatchOutputOptions& options = {}) {
    answered_ = {};
    return BatchOutput::open(folder_.path("out"), options, answered_);
  }
  void expect_refused(const std::string& content, const std::string& why) {
    folder_.write("out", content);
    const Result<BatchOutput> output = open();
    ASSERT_FALSE(output) << content;
    EXPECT_THAT(output.error().message, HasSubstr(why));
    EXPECT_THAT(output.error().message, HasSubstr("--overwrite"));
    EXPECT_EQ(folder_.read("out"), content);
  }

  TestFolder folder_;
  AnsweredRequests answered_;
};

TEST_F(BatchOutputTest, AppendsLinesToANewFile) {
  Result<BatchOutput> output = open();
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_TRUE(output->append(good(1, "a")));
  EXPECT_EQ(folder_.read("out"), good(1, "a"));  // at once: nothing waits in this process
  EXPECT_TRUE(output->append(nameless(2)));
  EXPECT_TRUE(output->sync());
  EXPECT_EQ(folder_.read("out"), good(1, "a") + nameless(2));
}

TEST_F(BatchOutputTest, KnowsWhatAnEarlierRunAnswered) {
  folder_.write("out", good(1, "a") + refused(2, "b") + nameless(3));
  Result<BatchOutput> output = open();
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_EQ(answered_.num_answered(), 1U);
  EXPECT_EQ(answered_.num_failed(), 2U);
  EXPECT_EQ(answered_.see("a"), State::kAnswered);
  EXPECT_EQ(answered_.see("a"), State::kDuplicate);
  EXPECT_EQ(answered_.see("b"), State::kFailed);
  EXPECT_EQ(answered_.see("c"), State::kNew);
  EXPECT_EQ(answered_.see("c"), State::kDuplicate);
  EXPECT_EQ(answered_.see_line(3), State::kFailed);
  EXPECT_EQ(answered_.see_line(4), State::kNew);
  EXPECT_TRUE(output->append(good(4, "c")));
  EXPECT_EQ(folder_.read("out"), good(1, "a") + refused(2, "b") + nameless(3) + good(4, "c"));
}

TEST_F(BatchOutputTest, CutsATornLastLineWhereverItWasTorn) {
  const std::string whole = good(1, "a");
  const std::string torn = refused(2, "b");
  for (size_t size = 0; size < torn.size(); ++size) {
    for (const std::string& before : {std::string(), whole}) {
      folder_.write("out", before + torn.substr(0, size));
      Result<BatchOutput> output = open();
      ASSERT_TRUE(output) << size << ": " << output.error().message;
      EXPECT_EQ(answered_.see("b"), State::kNew);
      EXPECT_TRUE(output->append(good(3, "c")));
      ASSERT_EQ(folder_.read("out"), before + good(3, "c")) << size;
    }
  }
}

TEST_F(BatchOutputTest, CutsZerosThatAPowerFailureLeft) {
  folder_.write("out", good(1, "a") + good(2, "b").substr(0, 30) + std::string(100, '\0'));
  ASSERT_TRUE(open());
  EXPECT_EQ(folder_.read("out"), good(1, "a"));
  folder_.write("out", good(1, "a") + std::string(100, '\0'));
  ASSERT_TRUE(open());
  EXPECT_EQ(folder_.read("out"), good(1, "a"));
}

TEST_F(BatchOutputTest, LeavesOtherFilesAlone) {
  expect_refused("my precious notes", "line 1 begins with something else");
  expect_refused("my precious notes\n", "line 1 begins with something else");
}

TEST_F(BatchOutputTest, LeavesFilesWithOtherLinesAlone) {
  expect_refused(good(1, "a") + "notes\n", "line 2 is no answer of a batch");
  expect_refused(good(1, "a") + "notes", "line 2 has no end");
  expect_refused(good(1, "a") + "{\"id\":\"batch_req_7\"}\n" + good(2, "b"), "line 2");
}

TEST_F(BatchOutputTest, OverwritesOnlyWhenItIsTold) {
  folder_.write("out", "notes\n");
  Result<BatchOutput> output = open({.overwrite = true});
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_TRUE(output->append(good(1, "a")));
  EXPECT_EQ(folder_.read("out"), good(1, "a"));
}

TEST_F(BatchOutputTest, TakesFailedLinesOutToBeDoneAgain) {
  folder_.write("out", refused(1, "a") + good(2, "b") + nameless(3) + good(4, "d") + "{\"id\":");
  std::filesystem::create_symlink(folder_.path("out"), folder_.path("link"));
  Result<BatchOutput> output =
      BatchOutput::open(folder_.path("link"), {.retry_failed = true}, answered_);
  ASSERT_TRUE(output) << output.error().message;
  EXPECT_EQ(answered_.see("a"), State::kNew);
  EXPECT_EQ(answered_.see("b"), State::kAnswered);
  EXPECT_EQ(answered_.see_line(3), State::kNew);
  EXPECT_EQ(folder_.read("out"), good(2, "b") + good(4, "d"));
  EXPECT_TRUE(output->append(good(1, "a")));
  EXPECT_EQ(folder_.read("out"), good(2, "b") + good(4, "d") + good(1, "a"));
  EXPECT_FALSE(open());  // still locked
  EXPECT_TRUE(std::filesystem::is_symlink(folder_.path("link")));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("out.kept")));
}

TEST_F(BatchOutputTest, IsWrittenByOneRunAtATime) {
  const Result<BatchOutput> first = open();
  ASSERT_TRUE(first);
  const Result<BatchOutput> second = open({.overwrite = true});
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("another process"));
}

TEST_F(BatchOutputTest, WritesToWhatIsNoFile) {
  Result<BatchOutput> null = BatchOutput::open("/dev/null", {}, answered_);
  ASSERT_TRUE(null) << null.error().message;
  EXPECT_FALSE(null->is_file());
  EXPECT_TRUE(null->append(good(1, "a")));
  EXPECT_TRUE(null->sync());
  Result<BatchOutput> full = BatchOutput::open("/dev/full", {}, answered_);
  ASSERT_TRUE(full);
  const Result<void> written = full->append(good(1, "a"));
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("/dev/full"));
  EXPECT_FALSE(BatchOutput::open(folder_.path("no/such/folder"), {}, answered_));
  EXPECT_FALSE(BatchOutput::open(folder_.path(""), {}, answered_));
}

}  // namespace
}  // namespace millrace
