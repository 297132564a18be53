#include "server/text_workers.h"

#include <gtest/gtest.h>

#include <future>

namespace millrace {
namespace {

constexpr size_t kLargeBodyBytes = 2000;

// One thread, and that of large bodies; the first is busy until released_.
class TextWorkersTest : public ::testing::Test {
 protected:
  TextWorkersTest() {
    std::promise<void> begun;
    EXPECT_TRUE(workers_.try_post([this, &begun] {
      begun.set_value();
      released_.get_future().wait();
    }));
    begun.get_future().wait();
  }
  ~TextWorkersTest() override { workers_.stop(); }

  bool post(size_t num_bytes) {
    return workers_.try_post([this] { ++num_run_; }, num_bytes);
  }

  std::promise<void> released_;
  int num_run_ = 0;  // the worker's, until it is stopped
  TextWorkers workers_{
      {.num_threads = 1,
       .num_tasks_waiting_max = 4,
       .num_bytes_waiting_max = 100,
       .large_body_bytes = kLargeBodyBytes}};
};

TEST_F(TextWorkersTest, RefusesMoreTasksThanMayWait) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(post(0));
  EXPECT_FALSE(post(0));
  released_.set_value();
  workers_.stop();
  EXPECT_EQ(num_run_, 4);
}

TEST_F(TextWorkersTest, RefusesMoreBytesThanMayWait) {
  EXPECT_TRUE(post(60));
  EXPECT_FALSE(post(41));
  EXPECT_TRUE(post(40));
  EXPECT_FALSE(post(1));
  EXPECT_TRUE(post(0));
  released_.set_value();
  workers_.stop();
  EXPECT_EQ(num_run_, 3);
}

TEST_F(TextWorkersTest, TakesOneTaskOfAnySizeWhereNothingWaits) {
  EXPECT_TRUE(post(1000));
  EXPECT_FALSE(post(1));
  std::promise<void> done;
  EXPECT_TRUE(workers_.try_post([&done] { done.set_value(); }));
  released_.set_value();
  done.get_future().wait();
  EXPECT_TRUE(post(100)) << "what has run waits no more";
}

TEST_F(TextWorkersTest, RunsLargeBodiesApart) {
  std::promise<void> large_begun;
  std::promise<void> large_released;
  EXPECT_TRUE(workers_.try_post(
      [&] {
        large_begun.set_value();
        large_released.get_future().wait();
      },
      kLargeBodyBytes + 1
  ));
  large_begun.get_future().wait();  // though the thread of the others is busy
  released_.set_value();
  std::promise<void> done;
  EXPECT_TRUE(workers_.try_post([&done] { done.set_value(); }, 100));
  done.get_future().wait();  // though the thread of large bodies is
  large_released.set_value();
  workers_.stop();
}

}  // namespace
}  // namespace millrace
