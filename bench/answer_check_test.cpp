#include "bench/answer_check.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::bench {
namespace {

const std::string kText =
    R"({"choices":[{"index":0,"text":"a","finish_reason":null}],"usage":null})";
const std::string kEnd = R"({"choices":[{"index":0,"text":"","finish_reason":"length"}]})";
const std::string kTextAndEnd = R"({"choices":[{"index":0,"text":"b","finish_reason":"length"}]})";
const std::string kUsage = R"({"choices":[],"usage":{"prompt_tokens":32,"completion_tokens":2}})";
const std::string kDone = "[DONE]";

std::string stream(const std::vector<std::string>& events) {
  std::string body;
  for (const std::string& event : events) body += "data: " + event + "\n\n";
  return body;
}

TEST(AnswerCheck, AcceptsAWholeStreamInBothShapes) {
  const Result<StreamFacts> facts = check_stream(stream({kText, kTextAndEnd, kUsage, kDone}), {2});
  ASSERT_TRUE(facts.ok()) << facts.error().message;
  EXPECT_EQ(facts->num_events, 4u);
  EXPECT_EQ(facts->num_prompt_tokens, 32);
  EXPECT_TRUE(check_stream(stream({kText, kText, kEnd, kUsage, kDone}), {2}).ok());
  const std::string role = R"({"choices":[{"delta":{"role":"assistant","content":""}}]})";
  const std::string said = R"({"choices":[{"delta":{"content":"a"},"finish_reason":null}]})";
  const std::string end = R"({"choices":[{"delta":{},"finish_reason":"length"}]})";
  EXPECT_TRUE(check_stream(stream({role, said, said, end, kUsage, kDone}), {2}).ok());
}

TEST(AnswerCheck, RefusesAStreamThatIsNotWhatWasAskedFor) {
  const std::string stopped = R"({"choices":[{"text":"","finish_reason":"stop"}]})";
  const std::string three = R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":3}})";
  for (const std::vector<std::string>& events : std::vector<std::vector<std::string>>{
           {},
           {kTextAndEnd, kUsage, kDone},                // too few
           {kText, kText, kTextAndEnd, kUsage, kDone},  // too many
           {kText, kText, kUsage, kDone},               // not finished
           {kText, kText, kEnd, kEnd, kUsage, kDone},   // finished twice
           {kText, kTextAndEnd, kText, kUsage, kDone},  // text after the end
           {kText, kText, stopped, kUsage, kDone},      // another reason
           {kText, kText, kEnd, three, kDone},          // the usage says otherwise
           {kText, kText, kEnd, kDone},                 // no usage
           {kText, kText, kEnd, kUsage},                // no [DONE]
           {kText, kText, kEnd, kUsage, kDone, kDone},  // two
           {kText, R"({"error":{"message":"x"}})", kDone},
           {kText, "{", kTextAndEnd, kUsage, kDone},
       }) {
    EXPECT_FALSE(check_stream(stream(events), {2}).ok()) << stream(events);
  }
  std::string cut = stream({kText, kTextAndEnd, kUsage, kDone});
  cut.pop_back();
  EXPECT_FALSE(check_stream(cut, {2}).ok());
  EXPECT_FALSE(check_stream(": ping\n\n" + stream({kText, kEnd, kUsage, kDone}), {1}).ok());
}

TEST(AnswerCheck, TheBeginningOfAStreamIsTextAlone) {
  EXPECT_TRUE(check_stream_beginning(stream({kText, kText})).ok());
  EXPECT_TRUE(check_stream_beginning(stream({kText, kText}) + "data: {\"ch").ok());
  EXPECT_FALSE(check_stream_beginning(stream({kText, kTextAndEnd})).ok());
  const std::string nothing = R"({"choices":[{"text":"","finish_reason":null}]})";
  EXPECT_FALSE(check_stream_beginning(stream({kText, nothing, nothing})).ok());
}

TEST(AnswerCheck, KnowsAnAnswerAndARefusal) {
  const std::string usage = R"("usage":{"prompt_tokens":32,"completion_tokens":2})";
  const std::string answer =
      R"({"choices":[{"text":"a b","finish_reason":"length"}],)" + usage + "}";
  EXPECT_TRUE(check_answer(answer, {2}).ok());
  EXPECT_FALSE(check_answer(answer, {3}).ok());
  EXPECT_FALSE(check_answer(R"({"choices":[],)" + usage + "}", {2}).ok());
  EXPECT_FALSE(check_answer("{}", {2}).ok());
  EXPECT_TRUE(check_refusal(R"({"error":{"message":"m","type":"t","param":null,"code":null}})").ok()
  );
  EXPECT_FALSE(check_refusal(R"({"error":{"message":"m"}})").ok());
  EXPECT_FALSE(check_refusal(R"({"error":"m"})").ok());
  EXPECT_EQ(*first_model_id(R"({"data":[{"id":"x"},{"id":"y"}]})"), "x");
  EXPECT_FALSE(first_model_id(R"({"data":[]})").ok());
}

}  // namespace
}  // namespace millrace::bench
